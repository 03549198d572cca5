#!/usr/bin/env bash
# Sandboxes in containers, with runc and gVisor: the tests of the provisioner, those of sandboxes through a gateway, and
# those of a gateway that is itself in a container. Starts an engine if none answers, builds the images that are missing,
# and stops what it started. `HIMALIA_TEST_WITHOUT_GVISOR=1` leaves gVisor out, where an engine has none. `HIMALIA_BIN` and `TEST_PYTHON` name the gateway and the Python of the tests. Arguments go
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

tests/docker/engine.sh compose >/dev/null
DOCKER_HOST=$(tests/docker/engine.sh start)
export DOCKER_HOST HIMALIA_TEST_DOCKER_HOST=$DOCKER_HOST
# Only an engine of our own can be stopped and started.
if tests/docker/engine.sh ours; then
  export HIMALIA_TEST_OWN_ENGINE=1
elif [ "${HIMALIA_TEST_FOREIGN_ENGINE:-}" != 1 ]; then
  echo "the engine at $DOCKER_HOST is not the tests' own and cannot be stopped; HIMALIA_TEST_FOREIGN_ENGINE=1 leaves out what does so" >&2
  exit 2
fi
PYTHON=$TEST_PYTHON HIMALIA_BINARIES=$(dirname "$HIMALIA_BIN") docker/build-images.sh kernel gateway
# An image that knows nothing of us: a virtual environment with ipykernel and two more kernels.
other=tests/other-kernels/requirements.lock
if ! docker image inspect --format '{{index .Config.Labels "lock"}}' himalia-test-other 2>/dev/null | grep -qx "$(sha256sum <$other)"; then
  echo "building himalia-test-other" >&2
  context=$(mktemp -d target/images/other-XXXXXX)
  "$TEST_PYTHON" -m pip download --quiet --disable-pip-version-check --only-binary :all: --require-hashes --dest "$context/wheels" -r $other
  cp $other "$context/requirements.lock"
  docker build --quiet --network none --label "lock=$(sha256sum <$other)" -t himalia-test-other -f - "$context" >/dev/null <<DOCKERFILE
FROM $(docker/build-images.sh base)
COPY . /build/
RUN python3 -m venv /opt/other && /opt/other/bin/pip install --quiet --no-index --find-links /build/wheels -r /build/requirements.lock
ENV PATH=/opt/other/bin:/usr/bin:/bin
DOCKERFILE
  rm -rf "$context"
fi
tests='all()'
if [ "${HIMALIA_TEST_WITHOUT_GVISOR:-}" = 1 ]; then
  tests="$tests and not test(/^gvisor::/)"
elif ! docker info --format '{{json .Runtimes}}' | grep -q '"runsc"'; then
  echo "missing: gVisor (runtime runsc) in the engine at $DOCKER_HOST; HIMALIA_TEST_WITHOUT_GVISOR=1 leaves its tests out" >&2
  exit 2
fi
# The whole workspace, as `make test-rust` has built it: of one package alone, Cargo would build the dependencies anew.
cargo nextest run --locked --workspace --test docker --run-ignored only --retries "${RERUNS:-0}" -E "$tests"
"$TEST_PYTHON" -m pytest -q --reruns "${RERUNS:-0}" tests/python/sandbox/test_{isolation,harm,sessions,bash_in_sandboxes,programs_of_the_environment,facades,files,kept_files,kept_volumes,packages,mounts,network,credentials,credential_search,credential_programs,package_index,images,gateway_in_container}.py \
  ${HIMALIA_TEST_OWN_ENGINE:+tests/python/sandbox/test_engine_restart.py} "$@"
