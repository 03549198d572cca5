import asyncio
import os

from litellm.llms.e2b.sandbox.transformation import E2BSandboxConfig


async def main():
    config = E2BSandboxConfig()
    sandbox = await config.acreate_sandbox(api_base=os.environ["E2B_API_URL"], metadata={"by": "litellm"})
    # Code and token must not go to E2B's own domain.
    assert sandbox.domain == os.environ["E2B_API_URL"].split("/")[2], sandbox
    try:
        await config.arun_code(container=sandbox, code="6 * 7")
    except Exception as error:
        assert f"49999-{sandbox.id}.{sandbox.domain}" in str(error), error
    else:
        raise AssertionError("code runs: the page has to say so")
    assert await config.adelete_sandbox(container=sandbox)
    assert not await config.adelete_sandbox(container=sandbox)


asyncio.run(main())
