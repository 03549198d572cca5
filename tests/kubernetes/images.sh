#!/usr/bin/env bash
# Makes the images that the tests use as archives in $K8S_HOME/bin, without an engine: a kernel image from Debian's archive with
# ipykernel in the version of the lock file, the agent image from the static shim, and the image of the gateway from its program.
# `images.sh [SHIM [HIMALIA]]`; that of kernels is made once.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
shim=${1:-} himalia=${2:-}
lock=$root/kernelspecs/python3/requirements.lock

trap 'rm -rf "$K8S_HOME"/image.*' EXIT
# A name by its content: a changed lock makes a new one.
kernel=$bin/kernel-$(cat "$lock" "$here/images.sh" | sha256sum | cut -c1-12).tar
if [ ! -f "$kernel" ]; then
  say "kernel image"
  rm -f "$bin"/kernel-*.tar
  dir=$(mktemp -d "$K8S_HOME/image.XXXXXX")
  mmdebstrap --quiet --variant=minbase --include=python3,python3-venv,ca-certificates \
    --aptopt='Acquire::Languages "none"' --dpkgopt=force-unsafe-io --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' "$K8S_SUITE" "$dir/root"
  python3 -m pip download --quiet --disable-pip-version-check --only-binary :all: --require-hashes \
    --python-version "$(chroot "$dir/root" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')" \
    --dest "$dir/root/wheels" -r "$lock"
  chroot "$dir/root" python3 -m venv /opt/himalia
  chroot "$dir/root" /opt/himalia/bin/pip install --quiet --no-index --find-links /wheels ipykernel
  rm -rf "$dir/root/wheels" "$dir/root/var/cache/apt" "$dir/root/var/lib/apt/lists"
  # The kernelspec's program, for the tests: on the image's path, which the shim passes on.
  python3 "$here/image.py" local/kernel:1 "$kernel.new" "$dir/root" --path /opt/himalia/bin:/usr/local/bin:/usr/bin:/bin
  mv "$kernel.new" "$kernel"
fi
if [ -n "$shim" ]; then
  say "agent image"
  dir=$(mktemp -d "$K8S_HOME/image.XXXXXX")
  mkdir "$dir/kernel"
  install -m 755 "$shim" "$dir/himalia-shim"
  cp -a "$root/kernelspecs/python3/himalia_kernel" "$dir/kernel/"
  python3 "$here/image.py" local/agent:1 "$bin/agent.tar" "$dir" --cmd /himalia-shim
fi
if [ -n "$himalia" ]; then
  say "gateway image"
  dir=$(mktemp -d "$K8S_HOME/image.XXXXXX")
  mkdir -p "$dir/usr/local/bin" "$dir/bin" "$dir/usr/local/share/jupyter/kernels/python3" "$dir/tmp"
  install -m 755 "$himalia" "$dir/usr/local/bin/himalia"
  # Its libraries, as they are here, and what its hooks call.
  for library in $(ldd "$himalia" | grep -o '/[^ ]*'); do install -D "$library" "$dir$library"; done
  cp "$tool/bin/busybox" "$dir/bin/busybox"
  ln -s busybox "$dir/bin/sleep"
  cp "$root"/kernelspecs/python3/kernel.json "$dir/usr/local/share/jupyter/kernels/python3/"
  # The client of the object store does not start without certificates of authorities.
  install -D -m 644 /etc/ssl/certs/ca-certificates.crt "$dir/etc/ssl/certs/ca-certificates.crt"
  python3 "$here/image.py" local/gateway:1 "$bin/gateway.tar" "$dir" --cmd himalia
fi
