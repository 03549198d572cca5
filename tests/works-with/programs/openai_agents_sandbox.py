import asyncio
import io
from pathlib import Path

from agents.extensions.sandbox.e2b.sandbox import E2BSandboxClient, E2BSandboxClientOptions


async def main():
    client = E2BSandboxClient()
    try:
        await client.create(options=E2BSandboxClientOptions(sandbox_type="e2b_code_interpreter"))
    except Exception as error:
        assert "autoPause" in str(error), error
    else:
        raise AssertionError("its defaults work: the page has to say so")
    options = E2BSandboxClientOptions(sandbox_type="e2b_code_interpreter", timeout=120, on_timeout="kill", auto_resume=False)
    session = await client.create(options=options)
    try:
        await session.start()
        assert await session.running()
        done = await session.exec("echo text; exit 3", shell=True)
        assert (done.stdout.strip(), done.exit_code) == (b"text", 3), done
        await session.write(Path("a.txt"), io.BytesIO(b"content"))
        assert (await session.read(Path("a.txt"))).read() == b"content"
        kept = await session.persist_workspace()
        await session.exec("rm a.txt", shell=True)
        await session.hydrate_workspace(kept)
        assert (await session.read(Path("a.txt"))).read() == b"content"
    finally:
        await session.stop()
        await client.delete(session)


asyncio.run(main())
