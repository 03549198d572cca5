#!/usr/bin/env bash
# Run by run.sh as the first process of a minimal system: the environments of `inside.sh VERSION`, once for each state of the lock files,
# then the tests.
set -euo pipefail
version=$1
cd /himalia
kernels=/opt/kernels libraries=/opt/libraries tests=/opt/tests
state=$(cat kernelspecs/python3/requirements.lock tests/libraries/requirements.lock tests/requirements.lock | sha256sum)
if [ "$(cat /opt/state 2>/dev/null)" != "$state" ]; then
  rm -rf "$kernels" "$libraries" "$tests"
  "python$version" -m venv "$kernels"
  "$kernels/bin/pip" install --quiet --require-hashes -r kernelspecs/python3/requirements.lock
  "$kernels/bin/pip" install --quiet --no-deps --require-hashes --target "$libraries" -r tests/libraries/requirements.lock
  "python$version" -m venv "$tests"
  # Of the tests' environment what these tests need, and what that needs: Debian 13's pip takes no digests from constraints.
  needed='pytest|iniconfig|packaging|pluggy|pygments|pytest-timeout|jupyter-client|jupyter-core|platformdirs|python-dateutil|pyzmq|six|tornado|traitlets|typing-extensions|tzdata'
  awk -v "needed=^($needed)==" '/^[^ #]/ { wanted = $0 ~ needed } wanted' tests/requirements.lock >/opt/needed
  "$tests/bin/pip" install --quiet --no-deps --require-hashes -r /opt/needed
  "$tests/bin/pip" check
  echo "$state" >/opt/state
fi
"$kernels/bin/python" --version
# Not `exec`: this shell is the first process and reaps those that lost their parents, which pytest would not. Killed in the end if pytest
# waits at its end for connections of tests that failed.
status=0
HIMALIA_KERNEL_PYTHON=$kernels/bin/python HIMALIA_TEST_LIBRARIES=$libraries PYTHONDONTWRITEBYTECODE=1 \
  timeout --signal KILL 1200 "$tests/bin/python" -m pytest -q tests/python/kernel || status=$?
exit "$status"
