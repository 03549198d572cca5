#!/usr/bin/env bash
# Sandboxes in containers, with runc and gVisor: the tests of the provisioner, those of sandboxes through a gateway, and
# those of a gateway that is itself in a container. Starts an engine if none answers, builds the images that are missing,
# and stops what it started. `HIMALIA_BIN` and `TEST_PYTHON` name the gateway and the Python of the tests. Arguments go
# to pytest.
set -euo pipefail
cd "$(dirname "$0")/../.."

# Also after a failure, Ctrl-C or SIGTERM: first what was started here, then the engine with all its containers.
end() {
  local children
  children=$(cat "/proc/$$/task/$$/children" 2>/dev/null || true)
  # shellcheck disable=SC2086
  kill -TERM $children 2>/dev/null || true
  tests/docker/engine.sh stop
}
trap end EXIT

DOCKER_HOST=$(tests/docker/engine.sh start)
export DOCKER_HOST HIMALIA_TEST_DOCKER_HOST=$DOCKER_HOST
PYTHON=$TEST_PYTHON HIMALIA_BINARIES=$(dirname "$HIMALIA_BIN") docker/build-images.sh kernel gateway
tests="all()"
if ! docker info --format '{{json .Runtimes}}' | grep -q '"runsc"'; then
  echo "this engine has no gVisor (runtime runsc): its tests are left out" >&2
  tests='not test(/^gvisor::/)'
  export HIMALIA_TEST_WITHOUT_GVISOR=1
fi
# The whole workspace, as `make test-rust` has built it: of one package alone, Cargo would build the dependencies anew.
cargo nextest run --locked --workspace --test docker --run-ignored only -E "$tests"
"$TEST_PYTHON" -m pytest -q tests/python/sandbox/test_{isolation,harm,sessions,bash_in_sandboxes,gateway_in_container}.py "$@"
