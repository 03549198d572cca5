"""Ports for servers of tests that cannot choose one themselves."""

import contextlib
import socket


def free_ports(count, address="127.0.0.1"):
    """So many different ports on which nothing listens now."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind((address, 0))
        return [probe.getsockname()[1] for probe in probes]
