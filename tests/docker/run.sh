#!/usr/bin/env bash
# The tests of the Docker provisioner, and those of sandboxes at the levels of containers through a gateway: starts an
# engine if none runs, builds the image of kernels if it is missing, and stops what it started. `HIMALIA_BIN` and
# `TEST_PYTHON` name the gateway and the Python of the tests. Further arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/../.."
trap 'tests/docker/engine.sh stop' EXIT
DOCKER_HOST=$(tests/docker/engine.sh start)
export DOCKER_HOST HIMALIA_TEST_DOCKER_HOST=$DOCKER_HOST
docker/build-images.sh kernel
tests="all()"
if ! docker info --format '{{json .Runtimes}}' | grep -q '"runsc"'; then
  echo "this engine has no gVisor (runtime runsc): its tests are left out" >&2
  tests='not test(/^gvisor::/)'
fi
cargo nextest run --locked -p himalia-sandbox --test docker --run-ignored only -E "$tests"
"$TEST_PYTHON" -m pytest -q tests/python/sandbox/test_{isolation,harm,sessions}.py "$@"
