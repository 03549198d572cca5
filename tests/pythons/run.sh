#!/usr/bin/env bash
# The kernel package's tests (tests/python/kernel) on Pythons of other Debian releases.
#
#   run.sh 3.14        the same for 3.13; several can be named
#
# Needs root and mmdebstrap. For each version a minimal Debian with it is made in target/pythons, once; apt checks its signatures, and its
# index may be older than it says, as on a mirror that is not kept up to date. Packages have the versions and digests of the lock files.
# Settings of pip come from the environment (PIP_*, *_proxy), certificates and resolver from this machine.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/minimal-root.sh
. tests/minimal-root.sh
fail() { echo "missing: $1" >&2; exit 2; }
[ $# -gt 0 ] || { echo "usage: run.sh VERSION..." >&2; exit 2; }
[ "$(id -u)" = 0 ] || fail "root, which makes the minimal systems"
command -v mmdebstrap >/dev/null || fail "mmdebstrap (Debian: mmdebstrap)"
state=$PWD/target/pythons
mkdir -p "$state"

certificates=${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}
settings=(HOME=/root LANG=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin PIP_CERT=/opt/certificates.crt)
while IFS= read -r setting; do
  case "${setting%%=*}" in
    PIP_FIND_LINKS | PIP_CERT) ;;
    PIP_* | *_proxy | *_PROXY) settings+=("$setting") ;;
  esac
done < <(env)

for version in "$@"; do
  case "$version" in
    3.13) release=trixie ;;
    3.14) release=forky ;;
    *) echo "$version: Debian has 3.13 and 3.14; 3.11 is what \`make test-python\` runs on" >&2; exit 2 ;;
  esac
  root=$state/$release
  if [ ! -d "$root" ]; then
    echo "making a minimal Debian ($release) with Python $version"
    rm -rf --one-file-system "$root.new"
    mmdebstrap --quiet --variant=minbase --dpkgopt=force-unsafe-io --aptopt='Acquire::Check-Valid-Until "false"' \
      --include="python$version-venv,libgomp1" "$release" "$root.new"
    mv "$root.new" "$root"
  fi
  install -m 644 "$certificates" "$root/opt/certificates.crt"
  enter_root "$root" "$PWD" himalia "${settings[@]}" bash /himalia/tests/pythons/inside.sh "$version"
done
