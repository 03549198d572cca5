#!/usr/bin/env bash
# A Docker Engine for the tests: `engine.sh start|stop|status|ours|check|install|compose|down|up`.
#
# `start` prints the engine's address (unix://…) on standard output and nothing else. An engine that already answers
# (DOCKER_HOST, or a socket docker.sock in this network namespace) is used as it is and never stopped; else one of our
# own is started, with its own data below target/docker, its own socket, and no bridge, so that the host's network is
# left alone. What is missing is named, and the status is 2; `check` does only that. `install`, which `make
# prerequisites-test` calls, installs it as root on a Debian-like system.
# With HIMALIA_ENGINE_NETWORK=own the engine is in a network namespace of its own, where it sets packet filters as it does in real
# life; ports of its containers are not reachable from outside then.
# `stop` ends what `start` started, with its containers and mounts. `down` stops only the engine's process, as its restart would:
# with `down live-restore` running containers continue, with `down` alone the engine ends them. `up` starts the process again.
# `compose` prints a command that is Docker Compose 2, which `check` and `install` look for too; an engine needs none.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
state=${HIMALIA_ENGINE_DIR:-$root/target/docker}
# Sockets need short paths.
run=/run/himalia-test-docker
own=unix://$run/docker.sock
log=$state/dockerd.log

say() { echo "$*" >&2; }

answers() { docker --host "$1" version >/dev/null 2>&1; }

# The engine that we started, known by its data. (The pattern is not an argument, so that grep does not find itself.)
our_pid() {
  # A process that ends meanwhile is an error to grep, found or not.
  { grep -lszxFf <(echo "--data-root=$state/data") /proc/[0-9]*/cmdline || true; } | cut -d/ -f3 | head -1 | grep .
}

# The address of an engine that is not ours and answers.
foreign() {
  local host
  for host in ${DOCKER_HOST:-} $(awk '$NF ~ "^/.*/docker[.]sock$" { print "unix://" $NF }' /proc/net/unix | sort -u); do
    if [ "$host" = "$own" ] && our_pid >/dev/null; then continue; fi
    if [[ $host == unix://* ]] && answers "$host"; then
      echo "$host"
      return
    fi
  done
  return 1
}

ended() { ! our_pid >/dev/null; }

# Until a condition holds, at most so many seconds.
within() {
  local _
  for _ in $(seq "$(($1 * 5))"); do
    "${@:2}" && return
    sleep 0.2
  done
  return 1
}

# Only `install` does, and only where the user said so.
may_install() {
  [ "$verb" = install ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
  [ "${CI:-}" = true ] || [ "${YES:-}" = 1 ] && return
  [ -t 0 ] || return 1
  local answer
  read -r -p "Install them with apt-get? [y/N] " answer
  case "$answer" in y | Y | yes) ;; *) return 1 ;; esac
}

# Installs from Debian's backports without adding them to the system's sources: the stable gVisor is too old for
# unix sockets that lead out of the sandbox.
install_backport() {
  local suite
  suite=$(. /etc/os-release && echo "$VERSION_CODENAME")-backports
  apt_of "$suite"
  DEBIAN_FRONTEND=noninteractive "${apt[@]}" install -y "$1" >/dev/null
}

# Compose 2, which bookworm does not have: the package of the next release, unpacked beside the engine's data. The system is left
# alone; the program needs the C library alone.
install_compose() {
  local dir=$state/compose
  rm -rf "$dir" "$dir.new"
  mkdir -p "$dir.new"
  apt_of trixie
  (cd "$dir.new" && "${apt[@]}" -o APT::Sandbox::User=root download docker-compose >&2)
  dpkg-deb --fsys-tarfile "$dir.new"/docker-compose_*.deb | tar -x -C "$dir.new" ./usr/libexec/docker/cli-plugins/docker-compose
  rm "$dir.new"/*.deb
  mv "$dir.new" "$dir"
}

# Sets `apt` to apt-get with the lists of one suite of Debian and nothing else.
apt_of() {
  local dir=$state/apt-$1
  mkdir -p "$dir/sources" "$dir/lists/partial"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $1 main" >"$dir/sources/only.list"
  apt=(apt-get -qq -o "Dir::Etc::sourcelist=/dev/null" -o "Dir::Etc::sourceparts=$dir/sources"
    -o "Dir::State::lists=$dir/lists" -o APT::Install-Recommends=false)
  "${apt[@]}" update >&2
}

# A command that is Compose 2: the client's plugin, or the one that was unpacked.
compose() {
  local own=$state/compose/usr/libexec/docker/cli-plugins/docker-compose
  if docker compose version --short 2>/dev/null | grep -q '^v\?[2-9]'; then
    echo "docker compose"
  elif [ -x "$own" ]; then
    echo "$own"
  else
    return 1
  fi
}

# What is needed besides: of an engine of our own (`engine`), or for the tests with Compose (`compose`).
install_missing() {
  local packages=() missing=()
  want() { command -v "$1" >/dev/null || { packages+=("$2"); missing+=("$1 (Debian: $2)"); }; }
  want docker docker.io
  want mmdebstrap mmdebstrap
  if [ "$1" = engine ]; then
    want dockerd docker.io
    want iptables iptables
    [ -d /sys/fs/cgroup ] || { say "missing: /sys/fs/cgroup"; exit 2; }
    [ "$(id -u)" = 0 ] || missing+=("root, or an engine that already runs")
    command -v runsc >/dev/null || missing+=("runsc (gVisor; Debian: runsc of backports)")
  fi
  if [ "$1" = compose ]; then
    compose >/dev/null || missing+=("Docker Compose 2 (Debian 13: docker-compose)")
  fi
  [ ${#missing[@]} -gt 0 ] || return 0
  printf 'missing: %s\n' "${missing[@]}" >&2
  if ! may_install; then
    say "as root on Debian, \`make prerequisites-test\` installs them"
    exit 2
  fi
  if [ ${#packages[@]} -gt 0 ]; then
    say "installing: ${packages[*]}"
    apt-get update -qq >&2
    # The package would start a second engine where it can.
    RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive \
      apt-get install -qq -y --no-install-recommends "${packages[@]}" >/dev/null
  fi
  if [ "$1" = engine ] && ! command -v runsc >/dev/null; then
    say "installing: runsc"
    install_backport runsc
  fi
  if [ "$1" = compose ] && ! compose >/dev/null; then
    say "unpacking: docker-compose, into $state/compose"
    install_compose
  fi
}

# Whatever `make test-docker` will need.
prepare() {
  install_missing compose
  foreign >/dev/null || install_missing engine
}

start() {
  local host
  install_missing client
  if host=$(foreign); then
    say "using the engine at $host"
    echo "$host"
    return
  fi
  if our_pid >/dev/null && answers "$own"; then
    echo "$own"
    return
  fi
  install_missing engine
  stop
  mkdir -p "$state/data"
  install -d -m 700 "$run"
  configure false
  launch
}

# Whether containers outlive the engine's process.
configure() {
  # Debian's gVisor takes every network namespace for the host's on newer Linux, unless an option says that there is no
  # network; the tests with it need none.
  cat >"$state/daemon.json" <<JSON
{
  "live-restore": $1,
  "runtimes": {
    "runsc": { "path": "$(command -v runsc)", "runtimeArgs": ["--host-uds=open", "--oci-seccomp", "--network=none"] }
  }
}
JSON
}

launch() {
  local options=("--data-root=$state/data" --config-file "$state/daemon.json" --host "$own" --exec-root "$run/exec"
    --pidfile "$run/docker.pid" --bridge=none)
  # The lock is given back by what can be found as ours already, so that a stop after an interrupt finds it.
  # shellcheck disable=SC2016
  if [ "${HIMALIA_ENGINE_NETWORK:-}" = own ]; then
    setsid unshare --net sh -c 'exec 9>&-; ip link set lo up; exec dockerd "$@"' dockerd "${options[@]}" </dev/null >"$log" 2>&1 &
  else
    setsid sh -c 'exec 9>&-; exec dockerd "$@"' dockerd "${options[@]}" --iptables=false --ip6tables=false </dev/null >"$log" 2>&1 &
  fi
  began() { answers "$own" || ! kill -0 "$!" 2>/dev/null; }
  within 60 began || true
  if answers "$own"; then
    echo "$own"
    return
  fi
  say "the engine does not start; the end of $log:"
  tail -20 "$log" >&2
  stop
  exit 1
}

down() {
  local pid
  pid=$(our_pid) || { say "no engine of ours runs"; exit 1; }
  if [ "${1:-}" = live-restore ]; then configure true; else configure false; fi
  kill -HUP "$pid"
  reloaded() { docker --host "$own" info --format '{{.LiveRestoreEnabled}}' 2>/dev/null | grep -qx "$(sed -n 's/.*"live-restore": \(.*\),/\1/p' "$state/daemon.json")"; }
  within 30 reloaded || { say "the engine does not read its configuration again"; exit 1; }
  kill -TERM "$pid"
  within 60 ended || { say "the engine (process $pid) does not stop"; exit 1; }
}

stop() {
  local pid
  if pid=$(our_pid); then
    kill -TERM "$pid"
    # It stops its containers and its containerd first.
    if ! within 60 ended; then
      say "the engine (process $pid) does not stop and is killed"
      kill -KILL "$pid" 2>/dev/null || true
      within 30 ended || { say "the engine (process $pid) survives"; exit 1; }
    fi
  fi
  # Another checkout's engine may be there.
  if answers "$own"; then return; fi
  # A start that gVisor refused leaves its processes, which no engine knows any more. They name our directory.
  for pid in $(grep -ls "$run/exec/" /proc/[0-9]*/cmdline | cut -d/ -f3); do
    [ "$pid" = $$ ] || kill -KILL "$pid" 2>/dev/null || true
  done
  # It leaves its own network namespace mounted, and more if it was killed.
  awk -v run="$run/" -v data="$state/data/" 'index($2 "/", run) == 1 || index($2 "/", data) == 1 { print $2 }' /proc/mounts |
    sort -r | xargs -r umount -l
  rm -rf "$run"
}

# One start or stop at a time.
lock() {
  mkdir -p "$state"
  exec 9>"$state/lock"
  flock 9
}

verb=${1:-}
case "$verb" in
  check | install) prepare ;;
  start)
    lock
    start
    ;;
  stop)
    lock
    stop
    ;;
  down)
    lock
    down "${2:-}"
    ;;
  up)
    lock
    launch
    ;;
  ours)
    our_pid >/dev/null && answers "$own" && [ "${DOCKER_HOST:-$own}" = "$own" ]
    ;;
  compose)
    install_missing compose
    compose
    ;;
  status)
    if our_pid >/dev/null && answers "$own"; then
      echo "$own"
    elif host=$(foreign); then
      echo "$host"
    else
      say "no engine answers"
      exit 1
    fi
    ;;
  *)
    say "usage: engine.sh start|stop|status|ours|check|install|compose|up|down [live-restore]"
    exit 2
    ;;
esac
