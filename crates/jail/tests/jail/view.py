"""Prints, as JSON to descriptor 2, what a process in a sandbox sees and may do."""

import ctypes
import errno
import json
import os
import signal
import socket
import threading

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
CLONE_NEWUSER, SIGCHLD, PR_GET_SECUREBITS = 0x10000000, 17, 27


def call(number, *arguments):
    """The error of a system call, 0 if there is none."""
    result = libc.syscall(number, *(list(arguments) + [0] * (6 - len(arguments))))
    return ctypes.get_errno() if result < 0 else 0


def error_of(action):
    try:
        action()
    except OSError as error:
        return error.errno
    return 0


def clone_newuser():
    # Fork itself is clone without flags, which the other parts of this program show to work.
    number = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
    result = libc.syscall(number, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0)
    if result == 0:
        os._exit(0)
    return ctypes.get_errno() if result < 0 else 0


def loopback():
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(30)
    said = []

    def serve():
        peer, _ = server.accept()
        said.append(peer.recv(5).decode())

    thread = threading.Thread(target=serve)
    thread.start()
    with socket.create_connection(server.getsockname(), timeout=30) as client:
        client.sendall(b"hello")
    thread.join()
    return said[0]


def outside():
    with socket.socket() as client:
        client.settimeout(30)
        return client.connect_ex(("192.0.2.1", 9))


def family_works(number):
    try:
        socket.socket(number, socket.SOCK_DGRAM if number != 16 else socket.SOCK_RAW, 0).close()
    except OSError:
        return False
    return True


def allowed_sockets():
    """Of the ways to ask for an internet socket, those that the filter lets through, whatever the kernel says then."""
    found = []
    for family in (socket.AF_INET, socket.AF_INET6):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET, 6):
            # The usual one, ICMP, TCP, UDP, DCCP, ICMPv6, SCTP, UDP-Lite, MPTCP.
            for protocol in (0, 1, 6, 17, 33, 58, 132, 136, 262):
                try:
                    socket.socket(family, kind | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC, protocol).close()
                except OSError as error:
                    if error.errno == errno.EPERM:
                        continue
                found.append([int(family), int(kind), protocol])
    return found


def writable_dirs():
    found = []
    for at, dirs, _ in os.walk("/", topdown=True):
        dirs[:] = [] if at in ("/proc", "/usr", "/dev/pts") else dirs
        probe = os.path.join(at, "probe")
        try:
            os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except OSError:
            continue
        os.unlink(probe)
        found.append(at)
    return sorted(found)


def suid_mounts():
    with open("/proc/self/mountinfo") as info:
        fields = [line.split() for line in info]
    return [line[4] for line in fields if "nosuid" not in line[5].split(",")]


def readable_masks():
    bad = []
    for name in ("kcore", "keys", "key-users", "timer_list", "sysrq-trigger", "kmsg", "interrupts"):
        path = "/proc/" + name
        if os.path.exists(path) and os.stat(path).st_rdev != os.stat("/dev/null").st_rdev:
            bad.append(path)
    for name in ("acpi", "asound", "scsi"):
        path = "/proc/" + name
        if os.path.exists(path) and os.listdir(path):
            bad.append(path)
    return bad


def pty_works():
    leader, follower = os.openpty()
    os.write(leader, b"x\n")
    return os.read(follower, 10) == b"x\n"


# A test that fails ends: PID 1 dies of a signal from inside only by its own handler.
signal.signal(signal.SIGALRM, lambda *_: os._exit(1))
signal.alarm(120)
with open("/proc/self/status") as status:
    fields = dict(line.rstrip("\n").split(":", 1) for line in status)
mask = os.umask(0)
os.umask(mask)
families = {"unix": 1, "inet": 2, "inet6": 10, "netlink": 16, "packet": 17, "alg": 38, "vsock": 40, "bluetooth": 31}
refused = {}
for name, (number, wanted) in json.loads('REFUSED').items():
    if fields["Seccomp"].strip() == "0":
        refused[name] = "not tried: without a filter some stop this process"
        continue
    got = call(number)
    if got != wanted:
        refused[name] = errno.errorcode.get(got, got)
view = {
    "pid": os.getpid(),
    "pids": sorted(int(name) for name in os.listdir("/proc") if name.isdigit()),
    "status": {name: value.strip() for name, value in fields.items()},
    "groups": os.getgroups(),
    "securebits": libc.prctl(PR_GET_SECUREBITS, 0, 0, 0, 0),
    "umask": mask,
    "cwd": os.getcwd(),
    "env": dict(os.environ),
    "fds": sorted(int(name) for name in os.listdir("/proc/self/fd"))[:-1],
    "hostname": os.uname().nodename,
    "domainname": open("/proc/sys/kernel/domainname").read().strip(),
    "interfaces": [name for _, name in socket.if_nameindex()],
    "outside": outside(),
    "loopback": loopback(),
    "root": os.listdir("/"),
    "writable": writable_dirs(),
    "refused": refused,
    "clone_newuser": clone_newuser(),
    "sockets": allowed_sockets(),
    "families": [name for name, number in families.items() if family_works(number)],
    "suid_mounts": suid_mounts(),
    "readable_masks": readable_masks(),
    "sysctl_read_only": error_of(lambda: open("/proc/sys/kernel/hostname", "w")) in (errno.EROFS, errno.EACCES),
    "pty": pty_works(),
}
os.write(2, json.dumps(view).encode())
