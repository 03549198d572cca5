#!/usr/bin/env bash
# Builds images without pulling any: `build-images.sh [kernel] [gateway] [agent]`, `kernel` alone by default; `base` makes
# only what they start from, and prints its name.
#
#   BASE=image    an image that is there already, as the base; else Debian is made with mmdebstrap (as root)
#   PYTHON=…      a Python 3.11 or newer with pip, which fetches the wheels
#
# Each step is skipped when what it makes is there: the base and the wheels are kept in target/images, the layers in
# the engine (DOCKER_HOST, or the usual one).
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
state=${HIMALIA_IMAGES_DIR:-$root/target/images}
release=bookworm
packages=ca-certificates,python3,python3-venv,tzdata
lock=$root/kernelspecs/python3/requirements.lock
packages_txt=$root/docker/kernel/packages.txt
mkdir -p "$state"

say() { echo "$*" >&2; }
fail() { say "missing: $1"; exit 2; }
there() { docker image inspect "$1" >/dev/null 2>&1; }
hash_of() { cat "$@" | sha256sum | cut -c1-12; }

# Appears whole or not at all.
base_archive() {
  local archive=$1
  [ -f "$archive" ] && return
  command -v mmdebstrap >/dev/null || fail "mmdebstrap, or an image to start from: BASE=debian:bookworm-slim $0"
  say "making a Debian base ($release)"
  mmdebstrap --quiet --variant=minbase --include="$packages" \
    --aptopt='Acquire::Languages "none"' --dpkgopt=force-unsafe-io \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' \
    "$release" "$archive.new.tar" http://deb.debian.org/debian
  mv "$archive.new.tar" "$archive"
}

base() {
  if [ -n "${BASE:-}" ]; then
    echo "$BASE"
    return
  fi
  local name archive
  name=himalia-base:$release-$(echo "$packages" | sha256sum | cut -c1-12)
  if ! there "$name"; then
    archive=$state/${name#*:}.tar
    base_archive "$archive"
    docker import "$archive" "$name" >/dev/null
  fi
  echo "$name"
}

# The wheels are fetched by the host's pip, so that its cache, index and certificates do the work once.
fetch() {
  "${PYTHON:-python3}" -m pip download --quiet --disable-pip-version-check --only-binary :all: "$@" >&2
}

# Those of the lock, for one version of Python.
wheels() {
  local version=$1 dir
  dir=$state/wheels-$version-$(hash_of "$lock")
  if [ ! -f "$dir/complete" ]; then
    say "fetching wheels for Python $version"
    rm -rf "$state"/wheels-"$version"-*
    fetch --require-hashes --python-version "$version" --dest "$dir" -r "$lock"
    touch "$dir/complete"
  fi
  echo "$dir"
}

# Those of packages.txt and what they depend on, in the versions that the lock has.
wheels_of_packages() {
  local version=$1 locked=$2 dir
  dir=$state/packages-$version-$(hash_of "$lock" "$packages_txt")
  if [ ! -f "$dir/complete" ]; then
    say "fetching wheels of packages.txt"
    rm -rf "$state"/packages-"$version"-*
    mkdir "$dir"
    if grep -q -e '--hash=' "$packages_txt"; then
      # Everything has its hash then: what they depend on has it there or in the lock.
      fetch --require-hashes --python-version "$version" --find-links "$locked" --dest "$dir" -r "$packages_txt" -r "$lock"
    else
      say "packages.txt has no hashes: what the index serves is installed"
      sed -n 's/^\([A-Za-z0-9._-]*==[^ ;]*\).*/\1/p' "$lock" >"$dir/versions"
      fetch --python-version "$version" --find-links "$locked" --dest "$dir" -r "$packages_txt" -c "$dir/versions"
      rm "$dir/versions"
    fi
    touch "$dir/complete"
  fi
  echo "$dir"
}

kernel() {
  local base version wheels packages_of_own context
  base=$(base)
  version=$(docker run --rm --network none "$base" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  wheels=$(wheels "$version")
  context=$state/kernel
  rm -rf "$context"
  mkdir -p "$context/kernelspecs/python3" "$context/docker/kernel"
  cp "$lock" "$context/kernelspecs/python3/"
  cp "$packages_txt" "$root/docker/kernel/profile.sh" "$context/docker/kernel/"
  cp -al "$wheels" "$context/docker/kernel/wheels"
  if grep -q '^[^#]' "$packages_txt"; then
    packages_of_own=$(wheels_of_packages "$version" "$wheels")
    cp -alf "$packages_of_own"/*.whl "$context/docker/kernel/wheels/"
  fi
  say "building himalia-kernel"
  docker build --quiet --network host --build-arg "BASE=$base" -f "$root/docker/kernel/Dockerfile" \
    -t himalia-kernel "$context" >/dev/null
  rm -rf "$context"
  size himalia-kernel
}

gateway() {
  local base context binaries=${HIMALIA_BINARIES:-$root/target/release}
  [ -x "$binaries/himalia" ] && [ -x "$binaries/himalia-shim" ] || fail "$binaries/himalia and himalia-shim: make build"
  base=$(base)
  context=$state/gateway
  rm -rf "$context"
  mkdir -p "$context"
  cp "$binaries/himalia" "$binaries/himalia-shim" "$root/docker/gateway/entrypoint.sh" "$context/"
  mkdir "$context/kernelspec"
  cp "$root"/kernelspecs/python3/{kernel.json,logo-*} "$context/kernelspec/"
  say "building himalia"
  docker build --quiet --network none --build-arg "BASE=$base" -f "$root/docker/gateway/prebuilt.Dockerfile" \
    -t himalia "$context" >/dev/null
  rm -rf "$context"
  size himalia
}

# The init container of pods: the shim, linked statically, and the package of the kernel. Nothing else.
agent() {
  local context binaries=${HIMALIA_BINARIES:-$root/target/release}
  [ -x "$binaries/himalia-shim" ] || fail "$binaries/himalia-shim: make build"
  context=$state/agent
  rm -rf "$context"
  mkdir -p "$context/kernel"
  cp "$binaries/himalia-shim" "$context/"
  cp -a "$root"/kernelspecs/python3/{himalia_kernel,sitecustomize.py} "$context/kernel/"
  say "building himalia-agent"
  docker build --quiet --network none -f "$root/docker/agent/Dockerfile" -t himalia-agent "$context" >/dev/null
  rm -rf "$context"
  size himalia-agent
}

size() {
  say "$1: $(docker image inspect --format '{{.Size}}' "$1" | numfmt --to=si)B"
}

command -v docker >/dev/null || fail "docker"
docker version >/dev/null 2>&1 || fail "an engine that answers at ${DOCKER_HOST:-unix:///var/run/docker.sock}"
for image in "${@:-kernel}"; do
  case $image in
    base | kernel | gateway | agent) "$image" ;;
    *) say "usage: build-images.sh [base] [kernel] [gateway] [agent]"; exit 2 ;;
  esac
done
