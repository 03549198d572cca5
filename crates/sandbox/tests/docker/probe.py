"""Run inside a sandbox: tries what must not work, and prints what came of it as JSON."""
import ctypes
import errno
import json
import os
import resource
import socket

libc = ctypes.CDLL(None, use_errno=True)


def call(number, *arguments):
    """Name of the error of a system call, or `ok`."""
    ctypes.set_errno(0)
    padded = list(arguments) + [0] * (6 - len(arguments))
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) for a in padded])
    return "ok" if result >= 0 else errno.errorcode[ctypes.get_errno()]


def attempt(work):
    try:
        return str(work())
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))


def write(path):
    return attempt(lambda: open(path, "w").close() or "ok")


def connect(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as stream:
        stream.settimeout(3)
        return attempt(lambda: stream.connect(address) or "ok")


status = dict(line.split(":\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\t" in line)
x86 = os.uname().machine == "x86_64"
numbers = {  # x86_64, aarch64
    "unshare": (272, 97), "mount": (165, 40), "setns": (308, 268), "bpf": (321, 280), "io_uring_setup": (425, 425),
    "userfaultfd": (323, 282), "keyctl": (250, 219), "add_key": (248, 217), "ptrace": (101, 117),
    "perf_event_open": (298, 241), "open_by_handle_at": (304, 265), "process_vm_readv": (310, 270),
    "kexec_load": (246, 104), "init_module": (175, 105), "pivot_root": (155, 41), "fsopen": (430, 430),
}
pid = os.getpid()
arguments = {"unshare": (0x10000000,), "ptrace": (16, 1), "keyctl": (0, -3, 0), "setns": (0, 0)}
print(json.dumps({
    "ids": [os.getuid(), os.geteuid(), os.getgid()],
    "groups": os.getgroups(),
    "status": {name: status.get(name, "").strip()
               for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")},
    "no_new_privileges": libc.prctl(39, 0, 0, 0, 0),
    "seccomp": libc.prctl(21, 0, 0, 0, 0),
    "calls": {name: call(number[0 if x86 else 1], *arguments.get(name, ())) for name, number in numbers.items()},
    "write": {path: write(path) for path in (
        "/x", "/usr/x", "/etc/x", "/opt/himalia/x", "/himalia/x", "/himalia/gw/x", "/himalia/kernel/x",
        "/himalia/bin/himalia-shim", "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/x", "/dev/x",
        "/etc/hosts", "/etc/resolv.conf", "/session/x", "/tmp/x", "/dev/shm/x", "/himalia/run/x")},
    "read": {path: attempt(lambda: open(path, "rb").read(1) and "ok") for path in (
        "/proc/kcore", "/dev/mem", "/dev/kmsg", "/proc/keys", *(["/proc/1/environ", "/proc/1/mem"] if pid > 1 else []))},
    "there": [path for path in ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock",
                                "/dev/sda", "/dev/vda", "/dev/kvm") if os.path.exists(path)],
    "devices": sorted(os.listdir("/dev")),
    "interfaces": [name for _, name in socket.if_nameindex()],
    "connect": {"metadata": connect(socket.AF_INET, ("169.254.169.254", 80)),
                "bridge": connect(socket.AF_INET, ("172.17.0.1", 22)),
                "six": connect(socket.AF_INET6, ("fd00:ec2::254", 80)),
                "name": attempt(lambda: socket.create_connection(("example.org", 80), 3))},
    "setuid": [path for top in ("/usr", "/bin", "/sbin") for base, _, files in os.walk(top) for path in
               (os.path.join(base, name) for name in files)
               if os.path.isfile(path) and not os.path.islink(path) and os.stat(path).st_mode & 0o6000][:50],
    "limits": [resource.getrlimit(resource.RLIMIT_CORE), resource.getrlimit(resource.RLIMIT_NOFILE)],
    "descriptors": sorted(os.listdir("/proc/self/fd")),
    "host": socket.gethostname(),
    "home": os.getcwd(),
    "oom": open("/proc/self/oom_score_adj").read().strip(),
    "first": open("/proc/1/cmdline").read().replace("\0", " ").strip(),
}))
