"""A debugger that loads debugpy when it is first asked something."""

import sys

from tornado.locks import Event


class DeferredDebugger:
    """Stands for `ipykernel.debugger.Debugger` until a debug request comes; all of it runs in the control thread."""

    def __init__(self, log, debugpy_stream, event_callback, shell_socket, session, kernel_modules=(), *options):
        self._log = log
        self._arguments = (log, debugpy_stream, event_callback, shell_socket, session)
        self._kernel_modules = list(kernel_modules)
        self._options = options
        self._debugger = None
        self._loaded = Event()

    async def handle_stopped_event(self):
        """Wait for the next stop of the debugged code."""
        await self._loaded.wait()
        await self._debugger.handle_stopped_event()

    async def process_request(self, message):
        """Answer one debug request."""
        debugger = self._load()
        if debugger is None:
            return {
                "type": "response",
                "command": message.get("command"),
                "request_seq": message.get("seq"),
                "success": False,
                "message": "debugpy cannot be loaded",
            }
        return await debugger.process_request(message)

    def _load(self):
        if self._debugger is None:
            from himalia_kernel import deferred

            before = set(sys.modules)
            module = deferred.run("ipykernel.debugger")
            if not module._is_debugpy_available:
                self._log.warning("debugpy cannot be loaded: no debugger in this kernel")
                return None
            # Frames of the debugger itself are no code of the user's either.
            new = (sys.modules[name] for name in set(sys.modules) - before)
            files = [file for file in (getattr(module, "__file__", None) for module in new) if file]
            self._debugger = module.Debugger(*self._arguments, self._kernel_modules + files, *self._options)
            self._loaded.set()
        return self._debugger

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        debugger = self._load()
        if debugger is None:
            raise AttributeError(name)
        return getattr(debugger, name)
