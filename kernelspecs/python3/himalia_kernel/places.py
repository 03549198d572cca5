"""Tracebacks name files by the neutral paths of the sandbox, not by those of the host.

Where the gateway builds the root of a sandbox from the host's files, the environment is at its own path of the host, and
`/himalia/env` and `/himalia/python` are links to it and to the interpreter. A path that is shown can be opened.
"""

import contextlib
import os

_LINKS = ("/himalia/env", "/himalia/python")


def show_neutral(shell, links=_LINKS):
    """Have a shell's tracebacks show paths through the links, where these exist."""
    show = shell._showtraceback

    def shown(etype, evalue, parts):
        # The links of the sandbox that this process is in now: its modules may have been loaded before.
        for link in links:
            with contextlib.suppress(OSError):
                host = os.readlink(link)
                parts = [part.replace(f"{host}/", f"{link}/") for part in parts]
        show(etype, evalue, parts)

    shell._showtraceback = shown
