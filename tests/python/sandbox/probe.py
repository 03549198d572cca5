"""What code in a sandbox can do: run inside a kernel, prints one JSON object `case -> [held, what was seen]`.

Each case attacks for real and says whether the sandbox held. It uses the standard library only, so that it runs in any
image. `TARGETS` is put in front by the test: addresses of the host that must not be reachable, secrets that must not be
seen, and which cases to run.
"""

import contextlib
import ctypes
import errno
import glob
import json
import os
import signal
import socket
import struct
import subprocess
import threading
import time

libc = ctypes.CDLL(None, use_errno=True)
CASES = {}
REFUSED = ("EPERM", "ENOSYS", "EACCES", "ESRCH")
WAIT = 2.0  # seconds for a connection without an answer


def case(name):
    def add(function):
        CASES[name] = function
        return function

    return add


def syscall(number, *arguments):
    """The error name of a system call, or `ok`."""
    ctypes.set_errno(0)
    if libc.syscall(number, *arguments) < 0:
        return errno.errorcode.get(ctypes.get_errno(), str(ctypes.get_errno()))
    return "ok"


def status(field, pid="self"):
    with open(f"/proc/{pid}/status") as file:
        return next((line.split(None, 1)[1].strip() for line in file if line.startswith(field + ":")), "absent")


def opened(path, mode="rb"):
    """`None` if the file could be opened that way (and read), else the error's name."""
    try:
        with open(path, mode, buffering=0) as file:
            if "r" in mode:
                file.read(16)
        return None
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))


def in_child(function, seconds=20):
    """Runs a function in a forked child; its text result, or how the child ended."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write, str(function()).encode()[:4000])
        finally:
            os._exit(0)
    os.close(write)
    timer = threading.Timer(seconds, os.kill, (pid, signal.SIGKILL))
    timer.start()
    with os.fdopen(read, "rb") as file:
        text = file.read().decode()
    _, code = os.waitpid(pid, 0)
    timer.cancel()
    return text if text else f"ended with {code}"


@case("S1 processes are limited")
def fork_bomb():
    def bomb():
        os.setsid()
        children, why = [], "none"
        try:
            while len(children) < 20_000:
                pid = os.fork()
                if pid == 0:
                    signal.pause()
                    os._exit(0)
                children.append(pid)
        except OSError as error:
            why = errno.errorcode.get(error.errno)
        for pid in children:
            os.kill(pid, signal.SIGKILL)
        for pid in children:
            os.waitpid(pid, 0)
        return f"{len(children)} {why}"

    count, why = in_child(bomb, 60).split()
    return why == "EAGAIN", f"{count} forks, then {why}"


def fill(folder, limit):
    """Writes until there is no room; bytes written and the error's name."""
    path, written = os.path.join(folder, "fill.probe"), 0
    piece = b"x" * (1 << 20)
    try:
        with open(path, "wb", buffering=0) as file:
            while written < limit:
                written += file.write(piece)
        return written, "none"
    except OSError as error:
        return written, errno.errorcode.get(error.errno)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)


@case("S3 disk space is limited")
def disk():
    seen, held = [], True
    for folder in ("/session", "/tmp", "/dev/shm"):
        written, why = fill(folder, 3 << 30)
        held &= why in ("ENOSPC", "EDQUOT")
        seen.append(f"{folder} {written >> 20} MiB {why}")
    return held, ", ".join(seen)


@case("S4 no network")
def network():
    reached = []
    for host, port in [("169.254.169.254", 80), ("127.0.0.1", TARGETS["gateway_port"]), *map(tuple, TARGETS["addresses"])]:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.settimeout(WAIT)
            with contextlib.suppress(OSError):
                probe.connect((host, port))
                reached.append(f"{host}:{port}")
    devices = sorted(os.listdir("/sys/class/net")) if os.path.isdir("/sys/class/net") else []
    devices = devices or sorted(name for _, name in socket.if_nameindex())
    try:
        socket.getaddrinfo("example.org", 80)
        reached.append("a name was resolved")
    except OSError:
        pass
    return not reached and devices in ([], ["lo"]), f"devices {','.join(devices) or 'none'}; reached {reached or 'nothing'}"


@case("S5 host's devices and control files")
def control_files():
    bad = []
    for path in ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/dev/kmsg", "/dev/mem", "/dev/sda", "/dev/vda"):
        if os.path.exists(path) and opened(path) is None:
            bad.append(path)
    for path in ("/proc/kcore", "/proc/kmsg", "/proc/keys", "/proc/timer_list"):
        with contextlib.suppress(OSError), open(path, "rb") as file:
            if file.read(1):
                bad.append(path)
    for path in ("/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/vm/overcommit_memory"):
        if os.path.exists(path) and opened(path, "r+b") is None and not os.path.samefile(path, "/dev/null"):
            bad.append(f"{path} writable")
    bad += [path for path in glob.glob("/sys/fs/cgroup/**/release_agent", recursive=True) if os.access(path, os.W_OK)]
    bad += [path for path in glob.glob("/sys/fs/cgroup/**/cgroup.procs", recursive=True) if os.access(path, os.W_OK)]
    return not bad, ", ".join(bad[:5]) or "all absent, masked or refused"


@case("S6 no privilege")
def privilege():
    seen = {name: status(name) for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")}
    seen["uid"] = str(os.getuid())
    held = all(int(seen[name], 16) == 0 for name in ("CapEff", "CapPrm", "CapBnd"))
    # gVisor's own kernel has no ambient capabilities and does not show NoNewPrivs.
    held &= seen["CapAmb"] == "absent" or int(seen["CapAmb"], 16) == 0
    held &= seen["NoNewPrivs"] in ("1", "absent") and seen["Seccomp"] in ("2", "absent") and os.getuid() != 0
    return held, " ".join(f"{name}={value.lstrip('0') or '0'}" for name, value in seen.items())


@case("S6 dangerous system calls")
def system_calls():
    machine = os.uname().machine
    numbers = {
        "x86_64": dict(ptrace=101, unshare=272, setns=308, mount=165, pivot_root=155, bpf=321, io_uring_setup=425, userfaultfd=323, keyctl=250, add_key=248, perf_event_open=298, process_vm_readv=310, open_by_handle_at=304, kexec_load=246, init_module=175, reboot=169, swapon=167),
        "aarch64": dict(ptrace=117, unshare=97, setns=268, mount=40, pivot_root=41, bpf=280, io_uring_setup=425, userfaultfd=282, keyctl=219, add_key=217, perf_event_open=241, process_vm_readv=270, open_by_handle_at=265, kexec_load=104, init_module=105, reboot=142, swapon=224),
    }[machine]
    allowed = []
    for name, number in numbers.items():
        arguments = {
            "unshare": (0x10000000,),
            "ptrace": (16, 1, 0, 0),
            "perf_event_open": (ctypes.create_string_buffer(struct.pack("II", 1, 112) + bytes(104)), 0, -1, -1, 0),
            "keyctl": (0, -3, 1),
            "add_key": (b"user", b"probe", b"x", 1, -3),
            "io_uring_setup": (4, ctypes.create_string_buffer(120)),
        }.get(name, (0, 0, 0, 0, 0))
        answer = in_child(lambda number=number, arguments=arguments: syscall(number, *arguments))
        if answer not in ("EPERM", "ENOSYS", "EACCES"):
            allowed.append(f"{name}: {answer}")
    return not allowed, ", ".join(allowed) or f"{len(numbers)} tried, all EPERM or ENOSYS"


@case("S7 read-only root")
def read_only():
    writable = []
    for folder in ("/", "/usr", "/usr/bin", "/etc", "/bin", "/lib", "/himalia", "/himalia/gw", "/himalia/bin", "/himalia/kernel", "/himalia/env", "/himalia/python", "/sys", "/dev"):
        path = os.path.join(folder, "probe.himalia")
        with contextlib.suppress(OSError):
            with open(path, "w"):
                writable.append(folder)
            os.unlink(path)
    return not writable, ", ".join(writable) or "nothing outside the work directory, /tmp and /dev/shm takes a file"


@case("S9 no secrets in environment and descriptors")
def secrets():
    found = []
    texts = {"os.environ": "\0".join(f"{k}={v}" for k, v in os.environ.items())}
    for pid in [name for name in os.listdir("/proc") if name.isdigit()]:
        for file in ("environ", "cmdline"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/{file}", "rb") as handle:
                texts[f"/proc/{pid}/{file}"] = handle.read().decode(errors="replace")
    for place, text in texts.items():
        found += [f"{place} shows {name}" for name, secret in TARGETS["secrets"].items() if secret in text]
    odd = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            target = os.readlink(f"/proc/self/fd/{number}")
            if target.startswith("/") and not target.startswith(("/dev/", "/proc/", "/session", "/tmp", "/usr", "/himalia/run")):
                odd.append(target)
    return not found and not odd, ", ".join(found + odd) or "none of the gateway's, no file of the host is open"


@case("S10 host files")
def host_files():
    seen = [path for path in TARGETS["files"] if os.path.exists(path)]
    roots = []
    for pid in [name for name in os.listdir("/proc") if name.isdigit()]:
        with contextlib.suppress(OSError):
            entries = set(os.listdir(f"/proc/{pid}/root/"))
            if not entries <= set(os.listdir("/")):
                roots.append(pid)
    return not seen and not roots, ", ".join(seen + roots) or "none of the operator's is visible"


@case("T2 other kernels' sockets and processes")
def neighbours():
    seen = []
    for line in open("/proc/net/unix").readlines()[1:] if os.path.exists("/proc/net/unix") else []:
        path = line.split()[-1]
        if path.endswith(".sock") and not path.startswith("/himalia/"):
            seen.append(os.path.dirname(path))
    names = set()
    for pid in [name for name in os.listdir("/proc") if name.isdigit()]:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
            names.add(file.read().decode(errors="replace").split("\0")[0])
    foreign = [name for name in names if os.path.basename(name) == "himalia"]
    listening = []
    for port in TARGETS["neighbour_ports"]:
        with socket.socket() as probe:
            probe.settimeout(WAIT)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                listening.append(port)
    # The way of its own shim to the gateway shows the directory of this sandbox as the host names it, no other.
    others = sorted(set(seen))[1:]
    return not others and not foreign and not listening, ", ".join(map(str, [*others, *foreign, *listening])) or "nothing of them is visible"


@case("T3 other kernels' directories")
def directories():
    seen = [path for path in TARGETS["neighbour_paths"] if os.path.exists(path)]
    # Links name the environment and the interpreter, whose paths are the host's: which there are differs between hosts.
    found = list(os.scandir("/himalia")) if os.path.isdir("/himalia") else []
    own = sorted(entry.name for entry in found if not entry.is_symlink())
    return not seen, ", ".join(seen) or f"/himalia holds {', '.join(own) or 'nothing'}"


@case("shim: its memory")
def shim_memory():
    seen = []
    for path in ("/proc/1/environ", "/proc/1/maps"):
        with contextlib.suppress(OSError), open(path, "rb") as file:
            if file.read(16):
                seen.append(path)
    # Nothing is mapped at 0, so that a read there would fail also where the memory can be read.
    with contextlib.suppress(OSError), open("/proc/1/mem", "rb"):
        seen.append("/proc/1/mem")
    attach = in_child(lambda: syscall(101 if os.uname().machine == "x86_64" else 117, 16, 1, 0, 0))
    # One byte from an address: EFAULT means that only the address was wrong.
    local, remote = (ctypes.c_size_t * 2)(ctypes.addressof(ctypes.create_string_buffer(1)), 1), (ctypes.c_size_t * 2)(0x400000, 1)
    read = in_child(lambda: syscall(310 if os.uname().machine == "x86_64" else 270, 1, local, 1, remote, 1, ctypes.c_ulong(0)))
    held = not seen and attach in REFUSED and read in REFUSED
    return held, f"{', '.join(seen) or 'not readable'}; ptrace {attach}, process_vm_readv {read}"


@case("shim: signals from inside")
def shim_signals():
    answers = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL, signal.SIGSTOP):
        try:
            os.kill(1, number)
            answers.append(f"{number.name} sent")
        except OSError as error:
            answers.append(f"{number.name} {errno.errorcode[error.errno]}")
    time.sleep(0.2)
    return os.path.exists("/proc/1"), ", ".join(answers) + "; it lives"


def say_hello(key, epoch):
    """A hello as a shim would send it; what comes back."""
    body = json.dumps({"lane": "now", "key": key, "protocol": {"min": 1, "max": 9}, "build": "probe", "epoch_seen": epoch, "pid": 1, "kernels": []}).encode()
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(5)
        probe.connect("/himalia/gw/gw.sock")
        frame = struct.pack("<BHQ", 1, 0, 0) + body
        probe.sendall(struct.pack("<I", len(frame)) + frame)
        answer = b""
        with contextlib.suppress(OSError):
            while len(answer) < 4096:
                piece = probe.recv(4096)
                if not piece:
                    break
                answer += piece
        return answer


@case("shim: forged connection to the gateway")
def forged():
    answers = []
    for key, epoch in (("", 0), ("0" * 64, 2**63), ("x" * 100_000, 1)):
        try:
            answers.append(say_hello(key, epoch))
        except OSError as error:
            answers.append(errno.errorcode.get(error.errno, str(error)).encode())
    welcomed = [answer for answer in answers if b'"resume"' in answer]
    return not welcomed, f"{len(answers)} hellos without the key, {len(welcomed)} welcomed"


@case("shim: its gateway's memory")
def gateway_memory():
    """Connections without the key that announce 256 MiB each and send as much as is taken, again and again."""
    head = struct.pack("<IBHQ", 256 << 20, 4, 0, 0)
    zeros = bytes(1 << 20)
    taken, calls = [0] * 4, [0] * 4

    def call(number):
        while calls[number] < 25:
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(5)
                probe.connect("/himalia/gw/gw.sock")
                probe.sendall(head)
                while True:
                    taken[number] += probe.send(zeros)
            calls[number] += 1

    threads = [threading.Thread(target=call, args=(number,)) for number in range(len(taken))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # What a call leaves in the socket's buffer before it is hung up counts here too.
    each = sum(taken) // sum(calls) >> 10
    return each <= 1024, f"{sum(calls)} calls, less than 1 MiB of each taken" if each <= 1024 else f"{each} KiB of each call taken"


@case("shim: its socket renamed")
def renamed():
    done = []
    for attempt in (
        lambda: os.rename("/himalia/gw/gw.sock", "/himalia/gw/old.sock"),
        lambda: os.unlink("/himalia/gw/gw.sock"),
        lambda: os.symlink("/run/docker.sock", "/himalia/gw/k9.sock"),
        lambda: os.chmod("/himalia/gw/gw.sock", 0),
    ):
        with contextlib.suppress(OSError):
            attempt()
            done.append("done")
    return not done, "rename, unlink, symlink and chmod refused" if not done else f"{len(done)} of 4 succeeded"


def main():
    """Runs the cases that `TARGETS` names, or all but those that it leaves out since they end the sandbox."""
    results = {}
    for name in TARGETS["only"] or [name for name in CASES if name not in TARGETS["apart"]]:
        function = CASES[name]
        try:
            held, seen = function()
        except Exception as error:
            held, seen = False, f"probe failed: {type(error).__name__}: {error}"
        results[name] = [bool(held), str(seen)[:300]]
    print(json.dumps(results))


main()
