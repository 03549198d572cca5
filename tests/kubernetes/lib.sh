# Sourced by the others: settings, and where things are.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
K8S_HOME=${K8S_HOME:-$root/target/kubernetes} # downloads, tools, binaries (kept) and run/ (one cluster)
K8S_NAME=${K8S_NAME:-hm}           # prefix of namespaces, links and cgroups; at most 8 characters
K8S_NET=${K8S_NET:-10.77}          # first two octets; .0.0/24 is the machines' network, .101.0/24 node 1's pods
K8S_NODES=${K8S_NODES:-1}          # kubelets, each with a containerd and namespaces of its own
K8S_GRACE=${K8S_GRACE:-8}          # seconds without a sign of life until a node is NotReady
K8S_EVICT=${K8S_EVICT:-5}          # seconds from then until its pods are deleted
K8S_SUITE=bookworm                 # the only suite whose source package has the whole tree
K8S_VERSION=1.20.2
K8S_KUBECTL_SUITE=trixie            # whose kubectl is a newer one

bin=$K8S_HOME/bin
tool=$K8S_HOME/tool
run=$K8S_HOME/run
cg=/sys/fs/cgroup
kubectl=$tool/usr/bin/kubectl
export PATH=$bin:$tool/usr/bin:$tool/usr/sbin:$PATH

say() { echo "$(date +%T) $*" >&2; }
die() { say "$*"; exit 1; }

addr() { case $1 in host) echo "$K8S_NET.0.1" ;; cp) echo "$K8S_NET.0.2" ;; n*) echo "$K8S_NET.0.$((10 + ${1#n}))" ;; esac; }
pods() { echo "$K8S_NET.$((100 + ${1#n}))"; }   # first three octets of a node's pod network
nodes() { seq -f 'n%.0f' "$K8S_NODES"; }

# Every process of a cluster is in a cgroup below $K8S_NAME, and nothing else is: the list that down.sh ends.
ours() { find "$cg/pids/$K8S_NAME${1:+/$1}" -name cgroup.procs -exec cat {} + 2>/dev/null || true; }

inside() { nsenter --net="/run/netns/$K8S_NAME-$1" --mount="$run/ns/$1" "${@:2}"; }

# start MACHINE NAME COMMAND...: in the machine's namespaces and cgroup, so that down.sh finds it and what it starts.
# Without COMMAND: as the last time. (nsenter starts in /, so names are absolute.)
start() {
  local part=$1-$2 sys=$cg/pids/$K8S_NAME/$1/sys/cgroup.procs
  [ $# = 2 ] || printf '%q ' nsenter --net="/run/netns/$K8S_NAME-$1" --mount="$run/ns/$1" "${@:3}" >"$run/part/$part"
  setsid bash -c "echo \$\$ >$sys && echo \$\$ >$run/part/$part.pid && exec $(cat "$run/part/$part")" \
    </dev/null >>"$run/log/$part.log" 2>&1 &
}
# stop MACHINE NAME [SIGNAL]
stop() {
  local pid
  pid=$(cat "$run/part/$1-$2.pid")
  grep -qx "$pid" "$cg/pids/$K8S_NAME/$1/sys/cgroup.procs" || return 0
  kill "-${3:-TERM}" "$pid"
  for _ in $(seq 100); do grep -qx "$pid" "$cg/pids/$K8S_NAME/$1/sys/cgroup.procs" || return 0; sleep 0.1; done
  return 1
}
