#!/usr/bin/env bash
# A virtual machine with Debian's kernel and systemd, for run.sh: `machine.sh [RELEASE]` makes its disk, kernel and initial file system once,
# in target/cgroup2, and prints their directory. It runs /mnt/inside.sh of the directory that is shared with it as `tests`, shows its output on the second
# serial line, and powers off. Needs root.
set -euo pipefail
cd "$(dirname "$0")/../.."
# The tests run on the C library that they were linked with, or on a newer one.
release=${1:-$(. /etc/os-release && [ "$ID" = debian ] && echo "$VERSION_CODENAME" || echo bookworm)}
packages=linux-image-amd64,systemd-sysv,udev,dbus,python3
state=$PWD/target/cgroup2
machine=$state/$release-$(sha256sum tests/cgroup2/machine.sh | cut -c1-12)
if [ -d "$machine" ]; then
  echo "$machine"
  exit
fi

echo "making a virtual machine with Debian ($release)" >&2
mkdir -p "$state"
scratch=$(mktemp -d "$state/new-XXXXXX")
trap 'rm -rf --one-file-system "$scratch"' EXIT
root=$scratch/root
made=$scratch/made
mkdir "$made"
mmdebstrap --quiet --variant=minbase --include="$packages" --dpkgopt=force-unsafe-io \
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' "$release" "$root" >&2
cat >"$root/etc/systemd/system/tests.service" <<'UNIT'
[Unit]
Description=the tests
After=multi-user.target dbus.service
SuccessAction=poweroff
FailureAction=poweroff

[Service]
Type=oneshot
TimeoutStartSec=infinity
ExecStart=/bin/mount -t 9p -o trans=virtio,version=9p2000.L tests /mnt
ExecStart=/bin/bash /mnt/inside.sh
StandardOutput=tty
StandardError=inherit
TTYPath=/dev/ttyS1

[Install]
WantedBy=default.target
UNIT
chroot "$root" systemctl --quiet enable tests.service
chroot "$root" systemctl --quiet mask serial-getty@ttyS0.service apt-daily.timer apt-daily-upgrade.timer fstrim.timer
chroot "$root" useradd --create-home ada
cp "$root"/boot/vmlinuz-* "$made/vmlinuz"
cp "$root"/boot/initrd.img-* "$made/initrd"
truncate -s 3G "$made/disk"
mke2fs -q -t ext4 -d "$root" "$made/disk"
# Older ones are of no use any more.
rm -rf "$state/$release"-*
mv "$made" "$machine"
echo "$machine"
