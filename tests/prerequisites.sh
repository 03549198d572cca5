#!/usr/bin/env bash
# Packages that a `make` target needs from the system:
# `prerequisites.sh check|ensure|install rust|rust-tests|build|test|cgroup2|kubernetes|arm64`.
#
# `check` names missing packages and the command that installs them, and exits with status 2. `install` installs them with apt-get on a
# Debian-like system: after a question on a terminal, without one if CI=true or YES=1 is set, and never otherwise. `ensure`, which
# `make demo` and `make test` call, does the same, uses sudo for an ordinary user, and needs no question for root without a terminal.
# With CI=true or YES=1 `check` installs too.
# Node is no prerequisite: web/node.sh fetches it where the system has none that is new enough.
set -euo pipefail
cd "$(dirname "$0")/.."
verb=${1:-check} purpose=${2:-build}
case "$verb/$purpose" in
  ensure/build | ensure/test | check/rust | check/rust-tests | check/build | check/test | check/cgroup2 | check/kubernetes | check/arm64 | install/rust | install/rust-tests | install/build | install/test | install/cgroup2 | install/kubernetes | install/arm64) ;;
  *) echo "usage: prerequisites.sh check|ensure|install rust|rust-tests|build|test|cgroup2|kubernetes|arm64" >&2; exit 2 ;;
esac
as_root=()
if [ "$verb" = ensure ]; then
  if [ "$(id -u)" = 0 ]; then
    verb=install
    [ -t 0 ] || YES=1
  elif [ -t 0 ] && command -v sudo >/dev/null && command -v apt-get >/dev/null; then
    verb=install
    as_root=(sudo)
  else
    verb=check
  fi
  # `engine.sh` asks and installs by the same rule.
  export YES=${YES:-}
fi
if [ "${CI:-}" = true ] || [ "${YES:-}" = 1 ]; then verb=install; fi
target=prerequisites
case "$purpose" in
  rust | build) ;;
  rust-tests) target=prerequisites-test ;;
  *) target=prerequisites-$purpose ;;
esac

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
packages=() missing=()
want() { packages+=("$1"); missing+=("$2 (Debian: $1)"); }

# The shim is linked statically, so the C library is needed as an archive too.
links() { printf '#include <stdlib.h>\nint main(void) { return 0; }\n' | cc -static -x c - -o "$scratch/linked" 2>/dev/null; }
certificates() {
  local file
  for file in "${SSL_CERT_FILE:-}" "${CARGO_HTTP_CAINFO:-}" /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem; do
    if [ -s "$file" ]; then return 0; fi
  done
  return 1
}

# Of a server the tests need the programs alone: they start and stop it, with data of its own.
postgres() {
  [ -x "${HIMALIA_TEST_POSTGRES:-/usr/lib/postgresql/15/bin}/postgres" ] || want postgresql-15 "Postgres 15, for gateways that share a store"
}

command -v cc >/dev/null || want gcc "a C compiler, cc"
links || want libc6-dev "the C library's headers and static archive"
command -v python3 >/dev/null || want python3 "Python 3.11 or newer"
# Neither the lints nor the tests in Rust make a Python environment.
[ "$purpose" = rust ] || [ "$purpose" = rust-tests ] || python3 -c 'import ensurepip, venv' 2>/dev/null || want python3-venv "Python's venv"
certificates || want ca-certificates "certificates of the package registries"
case "$purpose" in
  rust-tests) postgres ;;
  test)
    [ -x /usr/bin/chromium ] || want chromium "/usr/bin/chromium, for JupyterLab and the viewer"
    command -v curl >/dev/null || want curl "curl, for the commands of README"
    command -v openssl >/dev/null || want openssl "openssl, for the test of a TLS proxy"
    command -v sqlite3 >/dev/null || want sqlite3 "sqlite3, for the repair of a damaged database in docs/operate/runbooks.md"
    command -v javac >/dev/null || want openjdk-17-jdk-headless "Java, which uses credentials in a sandbox"
    postgres
    ;;
  cgroup2)
    command -v mmdebstrap >/dev/null || want mmdebstrap "mmdebstrap, which makes the machine's system"
    command -v mke2fs >/dev/null || want e2fsprogs "mke2fs, which makes its disk"
    command -v qemu-system-x86_64 >/dev/null || want qemu-system-x86 "qemu-system-x86_64, which is the machine"
    ;;
  kubernetes)
    command -v mmdebstrap >/dev/null || want mmdebstrap "mmdebstrap, which makes the image of kernels"
    command -v ip >/dev/null || want iproute2 "ip, which makes the machines of the cluster"
    command -v openssl >/dev/null || want openssl "openssl, which makes its certificates"
    command -v make >/dev/null || want make "make"
    ;;
  arm64)
    command -v qemu-aarch64-static >/dev/null || command -v qemu-aarch64 >/dev/null ||
      want qemu-user-static "qemu-aarch64, which runs programs for 64-bit ARM"
    command -v aarch64-linux-gnu-gcc >/dev/null || want gcc-aarch64-linux-gnu "a C compiler for 64-bit ARM"
    ;;
esac

install_packages() {
  if [ "${CI:-}" != true ] && [ "${YES:-}" != 1 ]; then
    if [ ! -t 0 ]; then
      echo "not installed: there is no terminal to ask on; \`make $target YES=1\` installs without a question" >&2
      exit 2
    fi
    read -r -p "Install with apt-get: ${packages[*]}? [y/N] " answer
    case "$answer" in y | Y | yes) export YES=1 ;; *) exit 2 ;; esac
  fi
  echo "installing: ${packages[*]}"
  "${as_root[@]}" apt-get update -qq
  # Otherwise Debian's package makes a database and starts a server.
  case " ${packages[*]} " in
    *" postgresql-15 "*) "${as_root[@]}" mkdir -p /etc/postgresql-common/createcluster.d
      echo "create_main_cluster = false" | "${as_root[@]}" tee /etc/postgresql-common/createcluster.d/himalia-tests.conf >/dev/null ;;
  esac
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${packages[@]}" >/dev/null
}

if [ ${#packages[@]} -gt 0 ]; then
  printf 'missing: %s\n' "${missing[@]}" >&2
  if ! command -v apt-get >/dev/null; then exit 2; fi
  if [ "$(id -u)" != 0 ] && [ ${#as_root[@]} = 0 ]; then
    echo "install it with: sudo apt-get install --no-install-recommends ${packages[*]}" >&2
    exit 2
  fi
  if [ "$verb" = check ]; then
    echo "install it with: make $target  (or: apt-get install --no-install-recommends ${packages[*]})" >&2
    exit 2
  fi
  install_packages
fi

fail() { echo "missing: $1" >&2; exit 2; }
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail "Python 3.11 or newer (python3 is older)"
# Not for `install`: `sudo` has a PATH without the user's toolchain.
[ "$verb" = install ] || command -v cargo >/dev/null || fail "Rust (https://rustup.rs); the toolchain's version is in rust-toolchain.toml"
if [ "$purpose" = arm64 ] && command -v rustc >/dev/null; then
  rust=aarch64-unknown-linux-musl
  rust_has() { [ -d "$(rustc --print sysroot)/lib/rustlib/$rust" ]; }
  if ! rust_has && { [ "${CI:-}" = true ] || [ "${YES:-}" = 1 ]; }; then rustup target add "$rust"; fi
  rust_has || fail "Rust's libraries for 64-bit ARM: rustup target add $rust"
fi
# Of an engine for containers, which `make test-docker` needs: the last, since it can need root.
if [ "$purpose" = test ]; then tests/docker/engine.sh "$verb"; fi
