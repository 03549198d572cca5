"""Binds a kernel that was started ahead of its session: its environment and its working directory.

`himalia_bind_request` is `{"env": {name: value}, "unset": [names], "cwd": path or null, "kernel_id": id or null}`;
the reply's content is `{"status": "ok"}`, or `{"status": "error", "ename", "evalue"}` and nothing has changed.
"""

from himalia_kernel import environment
from himalia_kernel.errand import Errand
from himalia_kernel.refusal import error

# A kernel that has just said that it is idle still clears up; longer than that a cell runs.
_CLEARING_UP_S = 0.2


def handle(kernel, content, answer):
    """Apply a bind request if the kernel is idle, or is within 0.2 s, and answer it."""
    try:
        variables, unset, directory = environment.checked(content)
        name = content.get("kernel_id")
        if name is not None and not isinstance(name, str):
            raise ValueError("kernel_id: a string is needed")
    except ValueError as problem:
        answer(error("ValueError", problem))
        return

    def apply():
        try:
            environment.apply(kernel.parent, variables, unset, directory)
            environment.start_directory_history(kernel.parent)
            if name is not None:
                kernel.ident = name
                kernel.shell.displayhook.topic = kernel._topic("execute_result")
        except Exception as problem:
            answer(error(type(problem).__name__, problem))
        else:
            answer({"status": "ok"})

    Errand(kernel, apply, lambda reason: answer(error("KernelBusy", reason)), wait_s=_CLEARING_UP_S)
