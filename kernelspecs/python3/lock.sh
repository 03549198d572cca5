#!/bin/sh
# Makes requirements.lock from requirements.in. Needs uv (`pip install uv`).
set -eu
cd "$(dirname "$0")"
UV_CUSTOM_COMPILE_COMMAND=kernelspecs/python3/lock.sh \
exec uv pip compile requirements.in -o requirements.lock --quiet --universal --python-version 3.11 \
    --generate-hashes --no-emit-index-url --no-annotate "$@"
