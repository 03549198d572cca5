"""From the host zygote into a sandbox: the steps of its first process, in their order."""

import base64
import json
import os
import resource
import signal
import socket
from dataclasses import dataclass

from himalia_kernel import libc
from himalia_kernel.zygote import wire

# The order matters: the rights to enter the others come with the user namespace.
_NAMESPACES = {
    "user": libc.CLONE_NEWUSER,
    "mnt": libc.CLONE_NEWNS,
    "net": libc.CLONE_NEWNET,
    "ipc": libc.CLONE_NEWIPC,
    "uts": libc.CLONE_NEWUTS,
}
_OTHER_DESCRIPTORS = ("key", "log")


@dataclass
class Plan:
    """An enter request that was understood. Only what it names is done."""

    descriptors: dict  # by name
    seccomp: bytes
    setgroups: bool
    proc: dict  # what becomes of parts of /proc: `files`, `directories` (hidden) and `read_only`, lists of paths
    uid: int | None
    gid: int | None
    rlimits: dict
    argv: list
    env: dict

    @classmethod
    def parse(cls, request, descriptors):
        """Read a request; ValueError names the field that is wrong."""
        if request.get("op") != "enter":
            raise ValueError("op: only enter is known")
        names = request.get("fds") or []
        if not isinstance(names, list) or len(names) != len(descriptors) or len(set(names)) != len(names):
            raise ValueError(f"fds: one name for each of the {len(descriptors)} descriptors is needed")
        for name in names:
            if name not in _NAMESPACES and name not in _OTHER_DESCRIPTORS:
                raise ValueError(f"fds: {name!r} is not known")
        argv = request.get("argv")
        if not isinstance(argv, list) or not argv or not all(isinstance(part, str) for part in argv):
            raise ValueError("argv: a list of strings is needed")
        env = request.get("env") or {}
        if not isinstance(env, dict) or not all(isinstance(value, str) for value in env.values()):
            raise ValueError("env: an object of strings is needed")
        for name in ("uid", "gid"):
            if request.get(name) is not None and not isinstance(request[name], int):
                raise ValueError(f"{name}: a number is needed")
        try:
            seccomp = base64.b64decode(request.get("seccomp") or "", validate=True)
        except (ValueError, TypeError):
            raise ValueError("seccomp: base64 is needed") from None
        return cls(
            dict(zip(names, descriptors, strict=True)),
            seccomp,
            request.get("setgroups") is not False,
            checked_proc(request.get("proc")),
            request.get("uid"),
            request.get("gid"),
            checked_rlimits(request.get("rlimits")),
            argv,
            env,
        )


def checked_proc(rules):
    """The rules for /proc, all lists there, or ValueError."""
    found = {name: (rules or {}).get(name) or [] for name in ("files", "directories", "read_only")}
    for name, paths in found.items():
        if not isinstance(paths, list) or not all(str(path).startswith("/proc/") for path in paths):
            raise ValueError(f"proc.{name}: a list of paths below /proc is needed")
    return found


def checked_rlimits(limits):
    """`{number of the limit: (soft, hard)}` of a request's `rlimits`, or ValueError."""
    found = {}
    for name, pair in (limits or {}).items():
        number = getattr(resource, name, None) if name.startswith("RLIMIT_") else None
        if number is None:
            raise ValueError(f"rlimits: {name} is not known")
        known = isinstance(pair, list) and len(pair) == 2
        if not known or not all(value is None or isinstance(value, int) for value in pair):
            raise ValueError(f"rlimits: {name} needs a soft and a hard limit")
        found[number] = tuple(resource.RLIM_INFINITY if value is None else value for value in pair)
    return found


class Entrance:
    """Enters a sandbox and runs its program. Reports to the host zygote: `{"pid"}`, or `{"step", "error"}`."""

    def __init__(self, plan, app, report):
        self._plan = plan
        self._app = app
        self._report = report
        self._step = "fork"
        self._leave = self._stay = None
        self._sandboxed = any(name in plan.descriptors for name in _NAMESPACES)

    def enter(self):
        """Join the namespaces and fork the first process in them. Returns only there, with what it does next."""
        try:
            self._join()
            self._step = "fork"
            self._leave, self._stay = os.pipe()
            pid = os.fork()
            if pid != 0:
                self._tell({"pid": pid})
                self._linger()
        except BaseException as problem:
            self._fail(problem)
        return self.first_process

    def _linger(self):
        """End when the first kernel serves: giving back so much memory would slow down its start."""
        wire.close_all_but({self._leave})
        os.read(self._leave, 1)
        os._exit(0)

    def first_process(self):
        """Become what the sandbox's first process is. Returns only in its zygote, with what that does next."""
        try:
            ours, theirs = self._confine()
            self._step = "fork"
            waiting, turn = os.pipe()
            telling, told = os.pipe()
            # Not before these have gone their own ways does the report end: with it open the host would wait.
            if os.fork() == 0:
                wire.close_all_but({0, 1, 2, ours, turn, telling, self._stay})
                return self._sleeper(ours).first(turn, telling, self._stay)
            zygote = os.fork()
            if zygote == 0:
                wire.close_all_but({0, 1, 2, ours, waiting})
                return self._sleeper(ours).after(waiting)
            os.write(told, str(zygote).encode())
            os.close(ours)
            self._run(theirs)
        except BaseException as problem:
            self._fail(problem)
        return None

    def _sleeper(self, channel):
        from himalia_kernel.zygote.sleeper import Sleeper

        return Sleeper(socket.socket(fileno=channel), self._app)

    def _join(self):
        plan = self._plan
        self._step = "close"
        wire.close_all_but({0, 1, 2, self._report, *plan.descriptors.values()})
        for name, kind in _NAMESPACES.items():
            if name in plan.descriptors:
                self._step = f"setns {name}"
                libc.setns(plan.descriptors[name], kind)
                os.close(plan.descriptors[name])
        if self._sandboxed:
            # This process is used once, so its pid namespace for children is still the host zygote's own.
            self._step = "unshare pid"
            libc.unshare(libc.CLONE_NEWPID | libc.CLONE_NEWCGROUP)

    def _confine(self):
        plan = self._plan
        self._step = "setsid"
        os.setsid()
        if "mnt" in plan.descriptors:
            self._step = "mount /proc"
            self._mount_proc()
        self._step = "stdio"
        os.chdir("/")
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        os.dup2(null, 0)
        if "log" in plan.descriptors:
            os.dup2(plan.descriptors["log"], 1)
            os.dup2(plan.descriptors["log"], 2)
        self._step = "rlimits"
        for limit, pair in plan.rlimits.items():
            resource.setrlimit(limit, pair)
        if self._sandboxed or plan.uid is not None:
            self._step = "keyring"
            libc.join_new_session_keyring()
            os.umask(0o022)
            self._step = "capabilities"
            libc.drop_bounding_set()
            libc.lock_securebits()
            self._change_user()
            self._step = "capabilities"
            libc.drop_capabilities()
            libc.no_new_privileges()
        self._step = "socketpair"
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if plan.seccomp:
            self._step = "seccomp"
            libc.no_new_privileges()
            libc.load_filter(plan.seccomp)
        return ours.detach(), theirs.detach()

    def _mount_proc(self):
        """The processes of this sandbox, without what tells of the host or reaches it."""
        libc.mount("proc", "/proc", "proc", libc.MS_NOSUID | libc.MS_NODEV | libc.MS_NOEXEC)
        hidden = libc.MS_RDONLY | libc.MS_NOSUID | libc.MS_NODEV | libc.MS_NOEXEC
        rules = {name: filter(os.path.exists, paths) for name, paths in self._plan.proc.items()}
        for path in rules["files"]:
            libc.mount("/dev/null", path, None, libc.MS_BIND)
        for path in rules["directories"]:
            libc.mount("tmpfs", path, "tmpfs", hidden, "size=4k,mode=555")
        for path in rules["read_only"]:
            libc.mount(path, path, None, libc.MS_BIND)
            libc.mount(None, path, None, libc.MS_BIND | libc.MS_REMOUNT | hidden)

    def _change_user(self):
        plan = self._plan
        if plan.setgroups:  # not possible where an ordinary user made the namespace
            self._step = "setgroups"
            os.setgroups([])
        if plan.gid is not None:
            self._step = "setresgid"
            os.setresgid(plan.gid, plan.gid, plan.gid)
        if plan.uid is not None:
            self._step = "setresuid"
            os.setresuid(plan.uid, plan.uid, plan.uid)

    def _run(self, zygote):
        plan = self._plan
        argv = list(plan.argv)
        kept = {0, 1, 2, self._report, zygote}
        if "key" in plan.descriptors:
            argv += ["--key-fd", str(plan.descriptors["key"])]
            kept.add(plan.descriptors["key"])
        argv += ["--zygote-fd", str(zygote)]
        self._step = "exec"
        wire.close_all_but(kept)
        for descriptor in kept - {self._report}:
            os.set_inheritable(descriptor, True)
        for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.execvpe(argv[0], argv, plan.env)

    def _tell(self, content):
        os.write(self._report, json.dumps(content).encode() + b"\n")

    def _fail(self, problem):
        try:
            self._tell({"step": self._step, "error": f"{type(problem).__name__}: {problem}"})
        finally:
            os._exit(1)
