#!/usr/bin/env bash
# The three programs for 64-bit ARM, into BUILD/programs-aarch64: `arm64.sh PROFILE WHEEL_ENV BUILD`.
#
# `himalia` is linked by zig against glibc 2.17, as for the wheel of x86-64; the programs of sandboxes are static, as tests/arm64 builds them.
# Needs `make prerequisites-arm64`, and `rustup target add aarch64-unknown-linux-gnu aarch64-unknown-linux-musl`.
set -euo pipefail
cd "$(dirname "$0")/../.."
profile=$1 environment=$2 build=$3
gnu=aarch64-unknown-linux-gnu musl=aarch64-unknown-linux-musl
for target in $gnu $musl; do
  [ -d "$(rustc --print sysroot)/lib/rustlib/$target" ] || { echo "missing: rustup target add $target" >&2; exit 2; }
done
export CARGO_TARGET_DIR=$build
PATH=$environment/bin:$PATH cargo zigbuild --locked --profile "$profile" -p himalia --target $gnu.2.17
export CC_aarch64_unknown_linux_musl=aarch64-linux-gnu-gcc AR_aarch64_unknown_linux_musl=aarch64-linux-gnu-ar
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld
cargo build --locked --profile "$profile" -p himalia-shim -p himalia-jail --target $musl
mkdir -p "$build/programs-aarch64"
built=${profile/#dev/debug}
install -m 755 "$build/$gnu/$built/himalia" "$build/$musl/$built/himalia-shim" "$build/$musl/$built/himalia-jail" "$build/programs-aarch64"
# An emulator runs each as far as its version.
qemu=$(command -v qemu-aarch64-static || command -v qemu-aarch64)
for program in himalia-shim himalia-jail; do "$qemu" "$build/programs-aarch64/$program" --version; done
"$qemu" -L /usr/aarch64-linux-gnu "$build/programs-aarch64/himalia" --version
