"""A load balancer for tests: each connection goes to the next target. Arguments: `host:port` of each. Prints its own address."""

import asyncio
import itertools
import sys


async def pipe(reader, writer):
    """Copy until the end."""
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def main():
    """Serve until the process is ended."""
    targets = itertools.cycle(target.rsplit(":", 1) for target in sys.argv[1:])

    async def serve(reader, writer):
        host, port = next(targets)
        try:
            far_reader, far_writer = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.close()
            return
        await asyncio.gather(pipe(reader, far_writer), pipe(far_reader, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    print(f"{host}:{port}", flush=True)
    await server.serve_forever()


asyncio.run(main())
