"""Stands for the shim in tests of the zygote: hands requests on, and reaps.

    shim_stand_in.py <socket of the test> [--key-fd N] --zygote-fd N

The test sends `{"to_zygote": message}` and gets the zygote's reply, `{"reap": pid}` and gets its wait status,
`{"about": true}` and gets what the process sees of itself, or `{"exit": status}`.
"""

import os

open_at_start = {}
for name in os.listdir("/proc/self/fd"):
    try:
        open_at_start[name] = os.readlink(f"/proc/self/fd/{name}")
    except FileNotFoundError:
        continue  # the listing's own

# Not before: ctypes opens a file with some versions of libffi.
import argparse
import ctypes
import json
import socket
import sys

ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER, for the mode without namespaces
parser = argparse.ArgumentParser()
parser.add_argument("socket")
parser.add_argument("--key-fd", type=int)
parser.add_argument("--zygote-fd", type=int, required=True)
arguments = parser.parse_args()
zygote = socket.socket(fileno=arguments.zygote_fd)
test = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
test.connect(arguments.socket)
while data := test.recv(65536):
    request = json.loads(data)
    if "to_zygote" in request:
        descriptors = [1, 2] if request["to_zygote"].get("op") == "start" else []
        socket.send_fds(zygote, [json.dumps(request["to_zygote"]).encode()], descriptors)
        answer = json.loads(zygote.recv(65536))
    elif "reap" in request:
        answer = os.waitpid(request["reap"], 0)[1]
    elif "exit" in request:
        sys.exit(request["exit"])
    else:
        answer = {
            "pid": os.getpid(),
            "environ": dict(os.environ),
            "key": os.read(arguments.key_fd, 100).decode() if arguments.key_fd is not None else None,
            "fds": open_at_start,
            "status": dict(line.rstrip("\n").split(":\t", 1) for line in open("/proc/self/status") if ":\t" in line),
            "sid": os.getsid(0),
            "host": socket.gethostname(),
        }
    test.send(json.dumps(answer).encode())
