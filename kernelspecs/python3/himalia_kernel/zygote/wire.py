"""Datagrams of JSON with descriptors."""

import ctypes  # noqa: F401  (it is what opens libffi's file)
import json
import os
import re
import socket

# Bytes of one message, and descriptors beside it, at most.
MESSAGE_LIMIT = 64 * 1024
DESCRIPTOR_LIMIT = 32


class BadMessage(ValueError):
    """A datagram that is no JSON object, or too long."""


def send(channel, content, descriptors=()):
    """Send one message; raises OSError if the peer is gone."""
    socket.send_fds(channel, [json.dumps(content).encode()], list(descriptors))


def receive(channel):
    """Return `(content, descriptors)`, or `(None, [])` at the end.

    The descriptors are the caller's to close. With BadMessage they are closed already.
    """
    data, descriptors, flags, _ = socket.recv_fds(channel, MESSAGE_LIMIT, DESCRIPTOR_LIMIT)
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    try:
        if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
            raise BadMessage("the message is too long")
        if not data:
            return None, descriptors
        content = json.loads(data)
        if not isinstance(content, dict):
            raise BadMessage("the message is no object")
    except ValueError as problem:
        close(descriptors)
        raise problem if isinstance(problem, BadMessage) else BadMessage(str(problem)) from None
    return content, descriptors


def close(descriptors):
    """Close descriptors."""
    for descriptor in descriptors:
        os.close(descriptor)


def of_libraries():
    """Descriptors that a library has for itself: libffi 3.5 maps its own file again for each batch of callbacks."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            if re.search(r"/libffi\.so[.0-9]*$", os.readlink(f"/proc/self/fd/{name}")):
                found.add(int(name))
        except OSError:
            continue  # the listing's own
    return frozenset(found)


# Open since ctypes was imported, in this process and in all that are forked from it.
_KEPT = of_libraries()


def close_all_but(kept):
    """Close every descriptor of this process except `kept`, and those of libraries."""
    first = 0
    for descriptor in sorted({*kept, *_KEPT}):
        if first < descriptor:  # Python 3.11 takes the empty range (0, 0) for all there are
            os.closerange(first, descriptor)
        first = descriptor + 1
    os.closerange(first, _MOST)


# Above what any limit on open files allows; closing a range takes no longer for it.
_MOST = 2**30
