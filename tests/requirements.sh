#!/bin/sh
# Makes each requirements.lock below this directory from its requirements.in. Needs uv (`pip install uv`).
set -eu
cd "$(dirname "$0")"
lock() { # folder, further arguments
  folder=$1; shift
  UV_CUSTOM_COMPILE_COMMAND=tests/requirements.sh \
  uv pip compile "$folder/requirements.in" -o "$folder/requirements.lock" --quiet --universal --python-version 3.11 \
      --generate-hashes --no-emit-index-url --no-annotate "$@"
}
lock .
lock bench
lock agents
lock other-kernels
lock chart
lock ../clients/python/zig
# These are added to an environment that has what is left out.
lock libraries --no-emit-package numpy --no-emit-package scipy --no-emit-package narwhals --no-emit-package typing-extensions \
  --no-emit-package urllib3 --no-emit-package six --no-emit-package python-dateutil
