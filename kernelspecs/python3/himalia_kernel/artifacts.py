"""Sends the files that an execution wrote in order to be kept: those below `artifacts` in the directory of the session, and below
`/tmp/artifacts`.

Each is a message of a type of our own with the content in its buffer, which clients of Jupyter ignore. The gateway keeps it with the log.
"""

import contextlib
import os
import stat

from himalia_kernel import files

MESSAGE = "himalia_artifact"
# Where sandboxes have the files of a session, or a link to them. Elsewhere nothing is kept.
_WORK = "/session"
_TEMPORARY = "/tmp/artifacts"  # noqa: S108 - the sandbox's own
# Of one execution: files, bytes of one, bytes of all; and files that are named as left out.
FILES_LIMIT = 32
FILE_BYTES = 8 << 20
TOTAL_BYTES = 32 << 20
NAMED_LIMIT = 20
# Seconds of the walk: what is there is there to be kept.
_WALK_S = 1.0


class Artifacts:
    """The files of one kernel that are kept."""

    def __init__(self, kernel):
        self._kernel = kernel
        self._walkers = {}
        self._prepared = False

    def prepare(self, directory):
        """Make a place for them, once, for a kernel that begins in the directory of its session. Its branches, with directories of their own, have it too."""
        if not self._prepared and directory == os.path.realpath(_WORK):
            self._prepared = True
            with contextlib.suppress(OSError):
                os.makedirs(_TEMPORARY, exist_ok=True)

    def send(self, directory, since):
        """Send what was written since then, of a kernel whose directory is this one. Return what was left out, or None.

        `{"files": [{"name", "bytes", "reason"}], "more", "truncated"}`: the first ones, how many more, and whether a directory was not seen whole.
        """
        if not self._prepared:
            return None
        sent, total, omitted, truncated = set(), 0, [], False
        for place in (os.path.join(directory, "artifacts"), _TEMPORARY):
            if os.path.islink(place):
                continue
            found = self._walkers.setdefault(place, files.Walker()).written(place, since, _WALK_S)
            truncated |= found["truncated"]
            for name in found["written"]:
                content, size, reason = _read(os.path.join(place, name))
                if reason is None and name in sent:
                    reason = "same_name"
                elif reason is None and (len(sent) >= FILES_LIMIT or total + size > TOTAL_BYTES):
                    reason = "too_many"
                if reason is None:
                    sent.add(name)
                    total += size
                    self._publish(name, content)
                else:
                    omitted.append({"name": name, "bytes": size, "reason": reason})
        if not omitted and not truncated:
            return None
        return {"files": omitted[:NAMED_LIMIT], "more": len(omitted[NAMED_LIMIT:]), "truncated": truncated}

    def _publish(self, name, content):
        import mimetypes  # loaded when first needed, as the start of a kernel should be quick

        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        # The topic is that of output, which waits while too much is unsent.
        topic = self._kernel._topic("display_data")
        said = {"name": name, "media_type": kind}
        self._kernel.send_response(self._kernel.iopub_socket, MESSAGE, said, ident=topic, buffers=[content])


def _read(path):
    """`(content, size, None)` of a file, or `(None, size, reason)`."""
    size = 0
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(opened, "rb") as file:
            status = os.fstat(file.fileno())
            size = status.st_size
            if not stat.S_ISREG(status.st_mode):
                return None, size, "unreadable"
            if size > FILE_BYTES:
                return None, size, "too_large"
            content = file.read(FILE_BYTES + 1)
    except OSError:
        return None, size, "unreadable"
    # It may have grown meanwhile.
    return (content, len(content), None) if len(content) <= FILE_BYTES else (None, len(content), "too_large")
