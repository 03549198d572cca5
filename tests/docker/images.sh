#!/usr/bin/env bash
# The images of the gateway and of Python kernels from their sources: docker/gateway/Dockerfile and docker/kernel/Dockerfile are built as they
# are, in an engine that pulls nothing, and then tried: a gateway in a container with its viewer, and a kernel in another one.
#
# What they start from is made here from Debian's archive (docker/build-images.sh): the base of both, one with a C compiler and
# the toolchain of `rustc`, one with the Node of web/node.sh. Packages come from the registries, with the settings of this machine
# (tests/registries.sh). All images but the gateway's have these, so they are `himalia-test-…`: what the engine has as `himalia` and
# `himalia-kernel` is the same afterwards. Starts an engine if none answers, and stops what it started. `TEST_PYTHON` names the Python of the
# tests. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/registries.sh
. tests/registries.sh
scratch= lent=()
end() {
  local name
  for name in ${lent[@]+"${lent[@]}"}; do
    # NAME=ID, or NAME= where there was none.
    if [ -n "${name#*=}" ]; then docker tag "${name#*=}" "${name%%=*}"; else docker image rm "${name%%=*}" >/dev/null; fi || true
  done
  tests/docker/engine.sh stop
  [ -z "$scratch" ] || rm -rf "$scratch"
}
trap end EXIT
say() { echo "== $*" >&2; }
die() { echo "FAILED: $*" >&2; exit 1; }

tests/docker/engine.sh compose >/dev/null
DOCKER_HOST=$(tests/docker/engine.sh start)
export DOCKER_HOST HIMALIA_TEST_DOCKER_HOST=$DOCKER_HOST
mkdir -p target/images
scratch=$(mktemp -d "$PWD/target/images/from-source-XXXXXX")

# build NAME [OPTION...]: an image, with its context or its Dockerfile from standard input or as the options say.
build() { docker build --quiet --network host -t "$@" >/dev/null; }
# base NAME DIRECTORY [OPTION of tar...]: an image from the Dockerfile on standard input and the files of a directory.
base() {
  cat >"$scratch/Dockerfile"
  tar -c "${@:3}" -C "$2" . -C "$scratch" Dockerfile | build "$1" -
}
# lend IMAGE NAME: the image has this name until the end.
lend() {
  lent+=("$2=$(docker image inspect --format '{{.Id}}' "$2" 2>/dev/null || true)")
  docker tag "$1" "$2"
}

say "bases"
registry_settings /opt/certificates.crt
mkdir "$scratch/certificates" "$scratch/node"
[ -z "$certificates" ] || install -m 644 "$certificates" "$scratch/certificates/certificates.crt"
debian=$(docker/build-images.sh base)
{
  echo "FROM $debian"
  echo "COPY . /opt/"
  echo "RUN rm /opt/Dockerfile"
  for setting in ${settings[@]+"${settings[@]}"}; do
    value=$(sed 's/[\\"$]/\\&/g' <<<"${setting#*=}")
    echo "ENV ${setting%%=*}=\"$value\""
  done
} | base himalia-test-debian "$scratch/certificates"
# Documentation is most of a toolchain.
base himalia-test-rust "$(rustc --print sysroot)" --exclude=./share <<'DOCKERFILE'
FROM himalia-test-debian
RUN apt-get update -qq && apt-get install -qq -y --no-install-recommends gcc libc6-dev >/dev/null
COPY bin /opt/rust/bin
COPY lib /opt/rust/lib
ENV PATH=/opt/rust/bin:$PATH
DOCKERFILE
cp web/node.sh web/node.lock "$scratch/node/"
base himalia-test-node "$scratch/node" <<'DOCKERFILE'
FROM himalia-test-debian
COPY node.sh node.lock /build/
RUN /build/node.sh /opt/node
ENV PATH=/opt/node/bin:$PATH
DOCKERFILE

say "docker/kernel/Dockerfile"
refused=$(build himalia-test-refused --build-arg RELEASE=1 --build-arg "BASE=$debian" -f docker/kernel/Dockerfile . 2>&1) &&
  die "with RELEASE=1 a base without a digest was taken"
[[ $refused == *"is no digest"* ]] || die "a build with RELEASE=1 ended otherwise: $refused"
build himalia-test-kernel --build-arg BASE=himalia-test-debian -f docker/kernel/Dockerfile .

say "docker/gateway/Dockerfile"
build himalia-test-gateway --build-arg RUST=himalia-test-rust --build-arg NODE=himalia-test-node --build-arg "BASE=$debian" \
  -f docker/gateway/Dockerfile .

say "what was built"
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
printed=$(docker run --rm --network none --entrypoint himalia himalia-test-gateway -V)
[ "$printed" = "himalia $version" ] || die "himalia -V says \"$printed\", not \"himalia $version\""
lend himalia-test-gateway himalia
lend himalia-test-kernel himalia-kernel
"$TEST_PYTHON" -m pytest -q tests/python/sandbox/test_gateway_in_container.py "$@"
