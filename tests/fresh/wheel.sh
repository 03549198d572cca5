#!/usr/bin/env bash
# From an empty machine with Python to the first plot, with the wheel alone: `wheel.sh FILE.whl`.
#
# The machine is a minimal Debian with `python3-venv`, without Rust, Node, a compiler or a checkout. Prints the seconds of each step.
# Needs root and mmdebstrap. Settings of package registries come from the environment, as in run.sh.
set -euo pipefail
wheel=$(realpath "$1")
cd "$(dirname "$0")/../.."
# shellcheck source=tests/minimal-root.sh
. tests/minimal-root.sh
# shellcheck source=tests/registries.sh
. tests/registries.sh
unpack_root bookworm-python python3,python3-venv
install -m 755 tests/fresh/wheel-inside.sh "$root/inside.sh"
cat README.md docs/start/interfaces.md >"$root/opt/pages.md"
chmod 644 "$root/opt/pages.md"
registry_settings /opt/certificates.crt
[ -z "$certificates" ] || install -m 644 "$certificates" "$root/opt/certificates.crt"
settings+=(PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8)
enter_root "$root" "$(dirname "$wheel")" opt/wheels HOME=/root "${settings[@]}" /inside.sh "/opt/wheels/$(basename "$wheel")"
