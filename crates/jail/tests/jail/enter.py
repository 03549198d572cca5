"""Enters a prepared sandbox by the steps that the documentation of `ProcRules` names, then executes a program there.

Arguments: himalia-jail, the program's code. The plan comes over standard input.
"""

import base64
import ctypes
import json
import os
import socket
import struct
import subprocess
import sys

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
NEWPID, NEWCGROUP = 0x20000000, 0x02000000
RDONLY, NOSUID, NODEV, NOEXEC, REMOUNT, BIND = 1, 2, 4, 8, 32, 4096


def check(result, what):
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


def mount(source, target, kind, flags, data=None):
    text = [value and value.encode() for value in (source, target, kind, data)]
    check(libc.mount(text[0], text[1], text[2], ctypes.c_ulong(flags), text[3]), target)


def prctl(*arguments):
    check(libc.prctl(*arguments), f"prctl {arguments}")


def lock_in(prepared):
    os.setsid()
    mount("proc", "/proc", "proc", NOSUID | NODEV | NOEXEC)
    for path in filter(os.path.exists, prepared["proc"]["files"]):
        mount("/dev/null", path, None, BIND)
    for path in filter(os.path.exists, prepared["proc"]["directories"]):
        mount("tmpfs", path, "tmpfs", RDONLY | NOSUID | NODEV | NOEXEC, "size=4k,mode=555")
    for path in filter(os.path.exists, prepared["proc"]["read_only"]):
        mount(path, path, None, BIND)
        mount(None, path, None, BIND | REMOUNT | RDONLY | NOSUID | NODEV | NOEXEC)
    check(libc.syscall({"x86_64": 250, "aarch64": 219}[os.uname().machine], 1, 0, 0, 0, 0), "keyctl")
    os.umask(0o022)
    for capability in range(int(open("/proc/sys/kernel/cap_last_cap").read()) + 1):
        prctl(24, capability, 0, 0, 0)
    prctl(28, 0xEF, 0, 0, 0)
    if prepared["setgroups"]:
        os.setgroups([])
    os.setresgid(1000, 1000, 1000)
    os.setresuid(1000, 1000, 1000)
    header, none = struct.pack("Ii", 0x20080522, 0), bytes(24)
    check(libc.capset(header, none), "capset")
    prctl(38, 1, 0, 0, 0)
    program = base64.b64decode(prepared["seccomp"])
    buffer = ctypes.create_string_buffer(program, len(program))
    fprog = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(buffer)))
    prctl(22, 2, fprog, 0, 0)


def main(jail, code):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [jail, "prepare", "--report-fd", str(theirs.fileno())]
    subprocess.run(command, stdin=sys.stdin, pass_fds=[theirs.fileno()], timeout=60)
    line, fds, _, _ = socket.recv_fds(ours, 65536, 8)
    prepared = json.loads(line)
    if "error" in prepared:
        sys.exit(line.decode())
    assert prepared["fds"] == ["user", "mnt", "net", "ipc", "uts"], prepared["fds"]
    for name, fd in zip(prepared["fds"], fds, strict=True):
        check(libc.setns(fd, 0), name)
        os.close(fd)
    check(libc.unshare(NEWPID | NEWCGROUP), "unshare")
    child = os.fork()
    if child == 0:
        lock_in(prepared)
        os.chdir("/session")
        os.execve("/usr/bin/python3", ["python3", "-I", "-c", code], {"LANG": "C.UTF-8"})
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


main(*sys.argv[1:])
