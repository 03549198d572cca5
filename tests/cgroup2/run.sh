#!/usr/bin/env bash
# Sandboxes of namespaces under control groups of version 2: the sandbox crate's tests, and a gateway, in a virtual machine with Debian's kernel
# and systemd, as root and as an ordinary user, each in a unit with `Delegate=yes`; then packaging/himalia.service as it is.
#
#   run.sh [RELEASE]    of Debian; by default the one of this machine
#
# Needs root, on x86-64 (`make prerequisites-cgroup2`). The machine (machine.sh) is emulated where KVM cannot be used; its disk is not
# written. What a run makes is removed with it. The status is that of the tests.
set -euo pipefail
cd "$(dirname "$0")/../.."
fail() { echo "missing: $1" >&2; exit 2; }
[ "$(uname -m)" = x86_64 ] || fail "an x86-64 processor, whose programs the machine runs"
[ "$(id -u)" = 0 ] || fail "root, which makes the machine's disk"

# How long the machine may take, in seconds.
limit=1800

machine=$(tests/cgroup2/machine.sh "$@")
qemu= scratch=$(mktemp -d "$PWD/target/cgroup2/run-XXXXXX")
end() {
  # `timeout` hands the signal on.
  [ -z "$qemu" ] || { kill -TERM "$qemu" && wait "$qemu"; } 2>/dev/null || true
  rm -rf --one-file-system "$scratch"
}
trap end EXIT

# The whole workspace, as `make test-rust` has built it: of one package alone, Cargo would build the dependencies anew.
programs=(himalia himalia-jail himalia-shim himalia-fake-kernel)
# shellcheck disable=SC2046
cargo build --locked --workspace $(printf -- '--bin %s ' "${programs[@]}")
tests=$(cargo test --locked --workspace --test namespaces --no-run --message-format json |
  python3 -c 'import json, sys
for line in map(json.loads, sys.stdin):
    if line.get("executable") and line["target"]["name"] == "namespaces": print(line["executable"])')
share=$scratch/share
mkdir "$share"
install -m 755 tests/cgroup2/inside.sh tests/cgroup2/gateway.py tests/cgroup2/service.py "$share"
install -m 644 packaging/himalia.service "$share"
# Two certificates of the service, made here since the machine has no OpenSSL; its clock is this machine's.
for name in first second; do
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "/CN=$name" -addext subjectAltName=IP:127.0.0.1 \
    -addext basicConstraints=critical,CA:FALSE -keyout "$share/$name.key" -out "$share/$name.pem" 2>/dev/null
done
install -m 755 "$tests" "$share/namespaces"
for program in "${programs[@]}"; do install -m 755 "$(dirname "$tests")/../$program" "$share/$program"; done

# KVM can be there and not work, in a virtual machine for one: a kernel without a disk has to begin there.
accelerator=tcg
works() {
  local printed
  printed=$(timeout 20 qemu-system-x86_64 -accel kvm -cpu max -m 512 -nodefaults -display none -no-reboot \
    -kernel "$machine/vmlinuz" -append "console=ttyS0 panic=-1" -serial stdio </dev/null 2>/dev/null) || true
  [[ $printed == *"Linux version"* ]]
}
if [ -w /dev/kvm ] && works; then accelerator=kvm; fi
# The first serial line is the kernel's, the second one has what the tests print.
timeout --kill-after 10 "$limit" qemu-system-x86_64 -accel "$accelerator" -cpu max -smp 2 -m 2048 -nodefaults -display none -no-reboot \
  -kernel "$machine/vmlinuz" -initrd "$machine/initrd" -append "root=/dev/vda rw console=ttyS0 panic=-1" \
  -drive "file=$machine/disk,format=raw,if=virtio,snapshot=on" \
  -virtfs "local,path=$share,mount_tag=tests,security_model=none" \
  -serial "file:$scratch/console" -serial stdio </dev/null &
qemu=$!
ended=0
wait "$qemu" || ended=$?
qemu=
if [ ! -s "$share/status" ]; then
  echo "the machine ended with $ended and without the tests' status; the end of its console:" >&2
  tail -40 "$scratch/console" >&2
  exit 1
fi
exit "$(cat "$share/status")"
