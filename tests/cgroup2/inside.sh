#!/usr/bin/env bash
# Run by run.sh's virtual machine, as root: the tests and a gateway, each in two units, the unit of packaging/, and their status beside this file.
set -euo pipefail
here=$(dirname "$0")
# Line ends as they are.
stty -F /dev/ttyS1 raw
echo "$(uname -sr), $(systemctl --version | head -1), $(stat -fc %T /sys/fs/cgroup) at /sys/fs/cgroup"
# From the host's directory no ordinary user could run them, and slowly.
mkdir /opt/tests
cp "$here"/{namespaces,himalia,himalia-jail,himalia-shim,himalia-fake-kernel} /opt/tests/

status=0
# One unit with the controllers of its group for itself, as a gateway's.
as() {
  echo "== as $1"
  systemd-run --quiet --wait --pipe --collect --property=Delegate=yes --uid="$1" \
    --setenv=HIMALIA_TEST_CGROUPS=required /opt/tests/namespaces --color never || status=1
  python3 "$here/gateway.py" "$1" || status=1
}
as root
as ada
echo "== packaging/himalia.service"
python3 "$here/service.py" || status=1
echo "$status" >"$here/status"
sync
