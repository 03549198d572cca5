#!/usr/bin/env bash
# The documented commands on a machine that has nothing: a minimal Debian with the Rust toolchain, `git` and `make`.
#
#   run.sh demo     the demo as an ordinary user and as root; of `make test` what it needs
#   run.sh test     the same, then `make test` as a whole
#
# Needs root and mmdebstrap. The root is made in target/fresh and removed again; processes in it end with it. The toolchain is
# that of `rustc`, and what is tested is the last commit. Settings of package registries come from the environment (PIP_*, npm_config_*,
# CARGO_*, *_proxy) and from the certificates and the resolver of this machine.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/minimal-root.sh
. tests/minimal-root.sh
# shellcheck source=tests/registries.sh
. tests/registries.sh
what=${1:-demo}
case "$what" in demo | test) ;; *) echo "usage: run.sh demo|test" >&2; exit 2 ;; esac
fail() { echo "missing: $1" >&2; exit 2; }
[ "$(id -u)" = 0 ] || fail "root, which makes the minimal system"
command -v mmdebstrap >/dev/null || fail "mmdebstrap (Debian: mmdebstrap)"

state=$PWD/target/fresh
release=bookworm
base=$state/$release.tar
mkdir -p "$state"
if [ ! -f "$base" ]; then
  echo "making a minimal Debian ($release)"
  mmdebstrap --quiet --variant=minbase --dpkgopt=force-unsafe-io "$release" "$base.new.tar"
  mv "$base.new.tar" "$base"
fi

root=$(mktemp -d "$state/root-XXXXXX")
end() {
  # Processes in it ended with their namespace; the mounts were in a namespace too.
  rm -rf --one-file-system "$root"
}
trap end EXIT
tar -xf "$base" -C "$root"
git clone --quiet --no-hardlinks . "$root/himalia"
install -m 755 tests/fresh/inside.sh "$root/inside.sh"

registry_settings /opt/certificates.crt
[ -z "$certificates" ] || install -m 644 "$certificates" "$root/opt/certificates.crt"
settings+=(PATH=/opt/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8)

enter_root "$root" "$(rustc --print sysroot)" opt/rust HOME=/root "${settings[@]}" /inside.sh "$what"
