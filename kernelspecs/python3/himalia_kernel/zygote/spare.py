"""A process that was forked before it was known which sandbox it is for."""

import json
import os
import socket

from himalia_kernel.zygote import wire
from himalia_kernel.zygote.enter import Entrance, Plan


class Spare:
    """Waits for a request, joins its control groups while the sandbox is still made, and goes in."""

    def __init__(self, channel, report, app):
        self._channel = channel
        self._report = report
        self._app = app

    def wait(self):
        """Wait for the sandbox. Returns what this process does next."""
        _, descriptors = wire.receive(self._channel)
        if not descriptors:
            os._exit(0)  # the host zygote is gone
        self._channel.close()
        order = socket.socket(fileno=descriptors[0])
        step = "request"
        try:
            _, groups = wire.receive(order)
            for number, group in enumerate(groups):
                step = f"cgroup{number}"
                os.write(group, b"0")
            wire.close(groups)
            step = "request"
            request, descriptors = wire.receive(order)
            if request is None:
                os._exit(0)  # the caller has given up
            plan = Plan.parse(request, descriptors)
        except Exception as problem:
            self._fail(step, problem)
        order.close()
        return Entrance(plan, self._app, self._report).enter

    def _fail(self, step, problem):
        text = str(problem) if isinstance(problem, ValueError) else f"{type(problem).__name__}: {problem}"
        os.write(self._report, json.dumps({"step": step, "error": text}).encode())
        os._exit(1)
