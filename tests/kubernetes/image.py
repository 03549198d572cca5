#!/usr/bin/env python3
"""Packs a directory as a one-layer image archive for `ctr images import`: no engine and no registry needed."""
import argparse, hashlib, io, json, tarfile

parser = argparse.ArgumentParser()
parser.add_argument("name", help="repository:tag")
parser.add_argument("out")
parser.add_argument("root")
parser.add_argument("--cmd", nargs="+", default=["sh"])
parser.add_argument("--user", default="")
parser.add_argument("--path", default="/usr/local/bin:/usr/bin:/bin")
args = parser.parse_args()


def plain(entry):
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = "root"
    if entry.name == "./tmp":
        entry.mode = 0o1777
    return entry


layer = io.BytesIO()
with tarfile.open(fileobj=layer, mode="w") as tar:
    tar.add(args.root, arcname=".", filter=plain)
layer = layer.getvalue()
digest = hashlib.sha256(layer).hexdigest()
config = json.dumps({
    "architecture": "amd64", "os": "linux",
    "config": {"Cmd": args.cmd, "Env": ["PATH=" + args.path], "User": args.user},
    "rootfs": {"type": "layers", "diff_ids": ["sha256:" + digest]},
    "history": [{"created_by": "image.py"}],
}).encode()
name = hashlib.sha256(config).hexdigest() + ".json"
manifest = json.dumps([{"Config": name, "RepoTags": [args.name], "Layers": [digest + ".tar"]}]).encode()
with tarfile.open(args.out, "w") as tar:
    for path, data in ((digest + ".tar", layer), (name, config), ("manifest.json", manifest)):
        entry = tarfile.TarInfo(path)
        entry.size = len(data)
        tar.addfile(entry, io.BytesIO(data))
