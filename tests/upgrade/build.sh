#!/usr/bin/env bash
# Builds the programs of an earlier commit, for the tests that upgrade a gateway: `build.sh COMMIT FOLDER`.
#
# The commit is taken from the history of this repository, so a shallow clone needs `git fetch --unshallow` first. It is built without
# optimisation and without the viewer: neither matters to what survives an upgrade.
set -euo pipefail
cd "$(dirname "$0")/../.."
commit=$1 folder=$2
if ! commit=$(git rev-parse --verify --quiet "$commit^{commit}"); then
  echo "commit $1 is not in this clone; \`git fetch --unshallow\` brings the history" >&2
  exit 2
fi
if [ "$(cat "$folder/commit" 2>/dev/null)" = "$commit" ]; then exit 0; fi
host=$(rustc -vV | sed -n 's/^host: //p')
rm -rf "$folder/source" "$folder/bin"
mkdir -p "$folder/source" "$folder/bin"
git archive "$commit" | tar -x -C "$folder/source"
cd "$folder/source"
export CARGO_TARGET_DIR="$folder/build" CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0
cargo build --locked -p himalia
# The programs inside a sandbox are static, as in `make build`.
cargo build --locked -p himalia-shim -p himalia-jail --target "$host" \
  --config "target.$host.rustflags=[\"-C\",\"target-feature=+crt-static\",\"--cfg\",\"getrandom_backend=\\\"linux_raw\\\"\"]"
install -m 755 "$folder/build/debug/himalia" "$folder/build/$host/debug/himalia-shim" "$folder/build/$host/debug/himalia-jail" "$folder/bin"
echo "$commit" > "$folder/commit"
