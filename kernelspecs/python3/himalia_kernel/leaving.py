"""`exit()` and `quit()` end the cell, as `sys.exit()` does, and leave the kernel and its variables alone.

IPython's end the process a moment after the reply, with whatever was sent meanwhile.
"""

import warnings


def install(shell):
    """Let `exit` and `quit` of a shell end the cell only."""

    def ask_exit():
        raise SystemExit

    shell.ask_exit = ask_exit
    # IPython's advice for `sys.exit()`, which is to use these.
    warnings.filterwarnings("ignore", message="To exit: use 'exit'")
