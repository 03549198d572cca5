#!/usr/bin/env bash
# What goes into sandboxes, himalia-shim and himalia-jail, for 64-bit ARM: linked statically, and their unit tests run in QEMU's
# emulation of a processor, on the kernel of this machine. Namespaces and filters of system calls cannot be tried so.
# What it needs: `make prerequisites-arm64`.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=aarch64-unknown-linux-musl
qemu=$(command -v qemu-aarch64-static || command -v qemu-aarch64)

# Rust brings a linker and musl's start files; the cryptography of TLS has parts in C, which need no library.
export CC_aarch64_unknown_linux_musl=aarch64-linux-gnu-gcc AR_aarch64_unknown_linux_musl=aarch64-linux-gnu-ar
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER=$qemu
# Debian 12's emulator has no `openat2`: what the shim has instead of it is tried alone.
export HIMALIA_TEST_WITHOUT_OPENAT2=1
programs=(-p himalia-shim -p himalia-jail)
cargo build --locked --quiet --target "$target" "${programs[@]}"
cargo test --locked --quiet --target "$target" "${programs[@]}" --lib --bins
for program in himalia-shim himalia-jail; do
  file=${CARGO_TARGET_DIR:-target}/$target/debug/$program
  # Machine 183 of an ELF file is 64-bit ARM.
  [ "$(od -An -tu2 -j18 -N2 "$file" | tr -d ' ')" = 183 ]
  "$qemu" "$file" --version
done
