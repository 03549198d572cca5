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
unpack_root bookworm
git clone --quiet --no-hardlinks . "$root/himalia"
install -m 755 tests/fresh/inside.sh "$root/inside.sh"

registry_settings /opt/certificates.crt
[ -z "$certificates" ] || install -m 644 "$certificates" "$root/opt/certificates.crt"
settings+=(PATH=/opt/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8)

enter_root "$root" "$(rustc --print sysroot)" opt/rust HOME=/root "${settings[@]}" /inside.sh "$what"
