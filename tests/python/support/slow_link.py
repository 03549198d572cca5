"""A TCP connection to a service of this machine that can become slow, stall, or be cut."""

import asyncio
import contextlib
import threading


class SlowLink:
    """Listens on a port of loopback and forwards to another. `close` ends it."""

    def __init__(self, port):
        self.to, self.delay, self.streams = port, 0.0, set()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.server = self._run(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = self.server.sockets[0].getsockname()[1]

    def slow(self, delay):
        """Each chunk of at most 16 KiB waits so many seconds, in both directions; 0: none does."""
        self.delay = delay

    def cut(self):
        """Reset all connections."""

        async def reset():
            for writer in list(self.streams):
                writer.transport.abort()

        self._run(reset())

    def close(self):
        async def end():
            self.server.close()
            for writer in list(self.streams):
                writer.transport.abort()

        self._run(end())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    def _run(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)

    async def _serve(self, reader, writer):
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.to)
        except OSError:
            writer.close()
            return
        ends = {writer, far_writer}
        self.streams |= ends
        await asyncio.gather(self._forward(reader, far_writer), self._forward(far_reader, writer))
        self.streams -= ends

    async def _forward(self, reader, writer):
        with contextlib.suppress(OSError):
            while data := await reader.read(16384):
                if self.delay:
                    await asyncio.sleep(self.delay)
                writer.write(data)
                await writer.drain()
        writer.close()
