#!/bin/sh
# Starts the gateway in a container that stands beside its sandboxes: the engine on the host mounts the shim and the
# kernel's package into them, so both must lie in a directory that has the same path on the host and in here.
set -eu
home=${HIMALIA_HOME:?the directory that is mounted at the same path as on the host}
mkdir -p "$home/bin"
# Running sandboxes keep the file that they were started with.
cp /usr/local/bin/himalia-shim "$home/bin/himalia-shim.new"
mv "$home/bin/himalia-shim.new" "$home/bin/himalia-shim"
exec himalia "$@" --shim "$home/bin/himalia-shim" --data-dir "$home/data" --run-dir "$home/run"
