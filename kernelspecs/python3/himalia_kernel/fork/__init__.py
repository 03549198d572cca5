"""Forks a live kernel: the branch has all of its variables, and from then on a life of its own.

`himalia_fork_request` is `{"connection_file": path, "cwd": path or null, "env": {}, "policy": "strict" or "report",
"wait_ms": n, "parent_pid": pid or null}`; the branch becomes a child of `parent_pid` and ends with it. The reply's content is `{"status": "ok", "pid", "hazards", "ms"}`, sent when the branch has bound its
sockets, or `{"status": "error", "ename", "evalue", "hazards"}` and there is no branch. Error names: `KernelBusy`,
`ForkHazard`, `Unsupported`, `BranchFailed`, `ValueError`, or that of an operating system error.

The fork happens in the main thread between two callbacks of its event loop, when no cell runs. It is a double fork:
the branch is no child of the kernel, so `os.wait()` in a cell never sees it. In the branch the stack unwinds to
`HimaliaKernelApp.start`; then everything that is shared with the parent is cut, and the same objects get new channels:

* `request` (parent): waits for the idle kernel, looks for hazards, forks, watches the branch until it is ready;
* `trial` (copies of the parent): whether forks work with this Python at all, once before the first;
* `hazards` and `native` (parent): what would not survive, or would hang;
* `branch` (branch): puts the steps below in order; if one fails, the branch exits and nothing else happened;
* `descriptors`, `loops`, `executors`, `inherited` (branch): cut descriptors, renew the event loop, revive idle
  thread pools, leave alone what the parent will clean up.

Shared permanently: files on disk, the hash seed, and the raw stdout and stderr that the kernel was started with.
"""
