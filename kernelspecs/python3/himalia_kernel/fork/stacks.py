"""Which library a thread belongs to that Python does not know, read from its stack.

Every thread ends in the function that it was started with, so the outermost return address on its stack that leads into
a library names its owner. The innermost does not: the frames of a wait hold remains of earlier calls, for instance
addresses of numpy's in a thread of numexpr.
"""

import os
import re
import struct
import sys

# The C and C++ runtimes, which are on every thread's stack.
_RUNTIME = re.compile(r"/(libc|libm|libpthread|libdl|librt|libstdc\+\+|libgcc_s|ld-[^/]*|ld-linux[^/]*)[.-][^/]*$|^\[")
# An idle thread has less than this between its innermost frame and the outermost.
_STACK_SEARCHED = 64 * 1024
_WORD = struct.calcsize("P")
# glibc on x86-64: a thread's descriptor lies above its outermost frame, and begins with its own address, which its
# third word repeats.
_SELF = 2


def owner(tid, libraries):
    """Return `(path of the library that a thread belongs to or None, whether the thread sleeps)`.

    `libraries`: see `mapped`. Raises FileNotFoundError where /proc does not tell the stack pointer (gVisor).
    """
    try:
        with open(f"/proc/self/task/{tid}/syscall") as file:
            fields = file.read().split()
    except FileNotFoundError:
        raise
    except OSError:
        return None, False  # it ended
    if len(fields) < 3 or fields[0] == "running":
        return None, False
    stack = int(fields[-2], 16)
    words = _words(stack, _STACK_SEARCHED)
    end = _descriptor(stack, words)
    frames = words if end is None else reversed(words[:end])
    # Without the descriptor it is not known where the stack ends, so the innermost has to do.
    return next(filter(None, (_library(address, libraries) for address in frames)), None), True


def mapped():
    """`(start, end, path)` of the code of every library but the runtime's and the interpreter's own."""
    own = {os.path.realpath(sys.executable), os.path.realpath("/proc/self/exe")}
    found = []
    with open("/proc/self/maps") as file:
        for line in file:
            fields = line.rstrip("\n").split(None, 5)
            if len(fields) < 6 or "x" not in fields[1]:
                continue
            path = fields[5]
            if _RUNTIME.search(path) or path in own or os.path.basename(path).startswith("libpython"):
                continue
            start, end = (int(part, 16) for part in fields[0].split("-"))
            found.append((start, end, path))
    return found


def _library(address, libraries):
    return next((path for start, end, path in libraries if start <= address < end), None)


def _descriptor(stack, words):
    """The index in `words` at which the thread's descriptor begins, or None."""
    for index, word in enumerate(words[:-_SELF]):
        if word == stack + index * _WORD == words[index + _SELF]:
            return index
    return None


def _words(address, length):
    """The pointer-sized words of this process's memory from an address on, as far as they are mapped."""
    page = os.sysconf("SC_PAGE_SIZE")
    data = b""
    memory = os.open("/proc/self/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        end = address + length
        while address < end:
            step = min(end, (address // page + 1) * page) - address
            data += os.pread(memory, step, address)
            address += step
    except OSError:
        pass  # the stack ends here
    finally:
        os.close(memory)
    count = len(data) // _WORD
    return struct.unpack(f"{count}P", data[: count * _WORD])
