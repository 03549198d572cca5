#!/usr/bin/env bash
# Checks what a `make` target needs from the system. As root on a Debian-like system it installs what is
# missing; elsewhere it names what is missing and ends with status 2. Argument: `build` or `test`.
set -euo pipefail
packages=() missing=()

want() { # command, Debian package, what it is for
  command -v "$1" >/dev/null || { packages+=("$2"); missing+=("$1 (Debian: $2) for $3"); }
}

want cc gcc "crates that compile C"
want python3 python3 "the kernels' environment"
python3 -c 'import ensurepip, venv' 2>/dev/null || { packages+=(python3-venv); missing+=("Python's venv (Debian: python3-venv)"); }
want node nodejs "the viewer"
want npm npm "the viewer"
if [ "${1:-build}" = test ]; then
  [ -x /usr/bin/chromium ] || { packages+=(chromium); missing+=("/usr/bin/chromium (Debian: chromium) for JupyterLab"); }
fi
if [ ${#packages[@]} -gt 0 ]; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing: ${packages[*]}"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${packages[@]}" >/dev/null
  else
    printf 'missing: %s\n' "${missing[@]}" >&2
    exit 2
  fi
fi

fail() { echo "missing: $1" >&2; exit 2; }
command -v cargo >/dev/null || fail "Rust (rustup.rs); the toolchain's version is in rust-toolchain.toml"
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail "Python 3.11 or newer (python3 is older)"
node -e 'const [major, minor] = process.versions.node.split(".").map(Number); process.exit(major > 20 || (major === 20 && minor >= 19) ? 0 : 1)' ||
  fail "Node 20.19 or newer"
if [ "${1:-build}" = test ]; then
  cargo nextest --version >/dev/null 2>&1 || cargo install --quiet --locked cargo-nextest
fi
