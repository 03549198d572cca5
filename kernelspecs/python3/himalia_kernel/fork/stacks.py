"""Which library a thread belongs to that Python does not know, read from its stack.

Every thread ends in the function that it was started with, so the outermost return address on its stack that leads into
a library names its owner. The innermost does not: the frames of a wait hold remains of earlier calls, for instance
addresses of numpy's in a thread of numexpr. A word that is no return address can have a value between two ends of a
library, since libraries are at random places: the bytes before a return address are a call.
"""

import os
import platform
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
# The longest call of x86-64 without a prefix: FF /2 with a SIB byte and a displacement of 32 bits.
_LONGEST_CALL = 7


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
    found = ((address, _library(address, libraries)) for address in frames)
    return next((path for address, path in found if path is not None and _follows_call(address)), None), True


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


def _follows_call(address):
    """Whether the instruction before an address is a call, as far as that can be seen from its last bytes."""
    if platform.machine() != "x86_64":
        return True
    memory = os.open("/proc/self/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        before = os.pread(memory, _LONGEST_CALL, address - _LONGEST_CALL)
    except OSError:
        return False  # before the library
    finally:
        os.close(memory)
    return is_call(before)


def is_call(code):
    """Whether x86-64 code ends with a call: E8 and a displacement of 32 bits, or FF with 2 in the middle of its ModRM byte."""
    if code[-5:-4] == b"\xe8":
        return True
    return any(code[-length] == 0xFF and code[1 - length] >> 3 & 7 == 2 and _length(code[-length:]) == length
               for length in range(2, len(code) + 1))


def _length(code):
    """Of an instruction of x86-64 with one byte of operation, a ModRM byte and no immediate operand."""
    mode, register = code[1] >> 6, code[1] & 7
    if mode == 3:
        return 2
    has_sib = register == 4
    wide = mode == 2 or (mode == 0 and (register == 5 or (has_sib and len(code) > 2 and code[2] & 7 == 5)))
    return 2 + has_sib + (4 if wide else mode)


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
