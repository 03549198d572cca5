"""Starts kernels by forking a process in which everything is imported already.

Four kinds of processes, each forked from the one before:

* `host`: the host zygote, `python -m himalia_kernel.zygote --control-fd N`. It makes the embryo of a kernel
  (`HIMALIA_PRELOAD` names the modules in it) and keeps one spare process for the next sandbox.
* `spare`: it joins the sandbox's control groups while the sandbox is still made.
* `enter`: the first process of the sandbox. It enters it, forks two sleepers and runs the shim (or whatever `argv` says).
* `sleeper`: one becomes the first kernel. The other one is the sandbox's zygote from then on: it runs no user code and
  forks kernels for the shim, whose children they are.

Messages are JSON objects, one per datagram of a `SOCK_SEQPACKET` socket, at most 64 KiB, descriptors beside them:

    host zygote, once:  {"ready": true, "python", "preloaded": [], "failed": {}, "pid", "threads"}
                        or {"ready": false, "reason"}, and it exits
    to it:              {"op": "spawn", "id"}, with a socket for the two messages that follow
    there, first:       {"op": "join"}, with the `cgroup.procs` of the control groups
    there, second:      {"op": "enter", "fds": [names], "seccomp": base64, "uid", "gid",
                         "rlimits": {"RLIMIT_NOFILE": [soft, hard]}, "argv": [], "env": {}}; or its end: not wanted
    from it:            {"op": "spawned", "id", "pid", "ms"}, {"op": "failed", "id", "step", "error"},
                        and {"op": "exited", "pid", "status"} when a spawned process has ended
    to the sleeper:     {"op": "start", "connection_file", "env": {}, "cwd", "rlimits": {}, "oom_score_adj",
                         "parent_pid"}, with the descriptors of stdout and stderr; the kernel becomes a child of
                        `parent_pid` and ends with it
    from it:            {"op": "started", "pid"} or {"op": "failed", "error"}; before and with the first kernel also
                        "zygote": [pids], the processes that are the sandbox's zygote from then on

End of file on its socket ends a zygote; what it has started lives on.

All kernels of one host zygote share the layout of their memory and the hash seed (`PYTHONHASHSEED`, `LD_*`,
`*_NUM_THREADS` and the like were read when the zygote started), so one zygote serves one trust domain. It never holds a
secret: keys pass through as descriptors that it does not read.
"""
