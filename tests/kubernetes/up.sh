#!/usr/bin/env bash
# Starts a cluster: etcd, kube-apiserver, controller manager and scheduler on a "machine" cp, and $K8S_NODES kubelets
# with containerd on machines n1, n2, ... A machine is a network namespace and a mount namespace; nothing of the host's
# network, mounts or Docker is touched but for one link ($K8S_NAME-host) and the routes over it. Prints the kubeconfig.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
[ "$(id -u)" = 0 ] || die "root is needed"
[ -d "$cg/memory" ] && [ -d "$cg/pids" ] || die "cgroup v1 is needed: kubelet $K8S_VERSION"
[ ! -e "$cg/pids/$K8S_NAME" ] && [ ! -e "/run/netns/$K8S_NAME-cp" ] || die "a cluster of this name runs, or half of one: run down.sh first"
"$here/build.sh"
rm -rf "$run"
mkdir -p "$run"/{ns,pki,log,part}
trap 's=$?; [ $s = 0 ] || { say "failed; logs in $run/log"; tail -n 5 "$run"/log/*.log >&2; }' EXIT

# --- machines -------------------------------------------------------------------------------------------------------
mount --bind "$run/ns" "$run/ns"
mount --make-private "$run/ns"
for stub in /var/lib/kubelet /var/lib/cni /var/log/pods /var/log/containers; do mkdir -p "$stub"; done
machine() {
  ip netns add "$K8S_NAME-$1"
  ip -n "$K8S_NAME-$1" link set lo up
  touch "$run/ns/$1"
  unshare --mount="$run/ns/$1" --propagation private true
  mkdir -p "$run/$1"
  for hierarchy in "$cg"/{cpu,cpuacct,cpuset,memory,devices,freezer,blkio,pids,systemd,hugetlb,net_cls,perf_event}; do
    [ -d "$hierarchy" ] || continue
    for dir in "$hierarchy/$K8S_NAME" "$hierarchy/$K8S_NAME/$1"; do
      [ ! -d "$dir" ] || continue
      mkdir "$dir"
      # This one starts empty, and nothing can run in it then.
      if [ -e "$dir/cpuset.cpus" ]; then for set in cpus mems; do cat "$dir/../cpuset.$set" >"$dir/cpuset.$set"; done; fi
    done
  done
  mkdir "$cg/pids/$K8S_NAME/$1/sys"
}
machine cp
# The switch is in cp, so that no packet filter of the host sees what crosses it.
ip -n "$K8S_NAME-cp" link add switch type bridge
ip -n "$K8S_NAME-cp" address add "$(addr cp)/24" dev switch
ip -n "$K8S_NAME-cp" link set switch up
plug() { # plug MACHINE: a cable from the switch to its eth0
  ip -n "$K8S_NAME-cp" link add "p-$1" type veth peer name "$K8S_NAME-$1"
  ip -n "$K8S_NAME-cp" link set "p-$1" master switch up
  if [ "$1" = host ]; then
    ip -n "$K8S_NAME-cp" link set "$K8S_NAME-$1" netns $$
    ip address add "$(addr host)/24" dev "$K8S_NAME-host"
    ip link set "$K8S_NAME-host" up
  else
    ip -n "$K8S_NAME-cp" link set "$K8S_NAME-$1" netns "$K8S_NAME-$1" name eth0
    ip -n "$K8S_NAME-$1" address add "$(addr "$1")/24" dev eth0
    ip -n "$K8S_NAME-$1" link set eth0 up
  fi
}
plug host
for n in $(nodes); do
  machine "$n"
  plug "$n"
  inside "$n" sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
  inside "$n" mount -t tmpfs tmpfs /run
  for stub in /var/lib/kubelet /var/lib/cni /var/log/pods /var/log/containers; do inside "$n" mount -t tmpfs tmpfs "$stub"; done
  # A kubelet sets these for the whole host, whatever its settings: it gets files of the node's own to write to instead.
  for value in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 kernel/keys/root_maxkeys=1000000 \
    kernel/keys/root_maxbytes=25000000; do
    file=$run/$n/sysctl-$(basename "${value%=*}")
    echo "${value#*=}" >"$file"
    inside "$n" mount --bind "$file" "/proc/sys/${value%=*}"
  done
  inside "$n" mount --make-rshared /
done
for n in $(nodes); do
  ip route add "$(pods "$n").0/24" via "$(addr "$n")"
  for other in cp $(nodes); do
    [ "$other" = "$n" ] || ip -n "$K8S_NAME-$other" route add "$(pods "$n").0/24" via "$(addr "$n")"
  done
done

within() { # within SECONDS WHAT COMMAND...
  local end=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || die "timed out: $what"
    for pid in "$run"/part/*.pid; do
      # An exit right after the start is a mistake in its options.
      [ ! -s "$pid" ] || [ -d "/proc/$(cat "$pid")" ] || die "ended: $(basename "$pid" .pid)"
    done
    sleep 0.1
  done
  say "$what"
}

# --- keys -----------------------------------------------------------------------------------------------------------
pki=$run/pki
cd "$pki"
key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"; }
key ca
openssl req -x509 -new -key ca.key -subj /CN=test-ca -days 30 -out ca.crt
cert() { # cert FILE SUBJECT [NAMES]
  key "$1"
  openssl req -new -key "$1.key" -subj "$2" |
    openssl x509 -req -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -out "$1.crt" \
      -extfile <(echo "extendedKeyUsage=serverAuth,clientAuth${3:+
subjectAltName=$3}") 2>/dev/null
}
kubeconfig() { # kubeconfig FILE CERT: self-contained
  local b="base64 -w0"
  cat >"$1" <<CONF
apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: "https://$(addr cp):6443", certificate-authority-data: $($b ca.crt)}}]
users: [{name: user, user: {client-certificate-data: $($b "$2.crt"), client-key-data: $($b "$2.key")}}]
contexts: [{name: test, context: {cluster: test, user: user}}]
current-context: test
CONF
  chmod 600 "$1"
}
key service-accounts
cert apiserver /O=system:masters/CN=kube-apiserver \
  "IP:$(addr cp),IP:127.0.0.1,IP:10.96.0.1,DNS:localhost,DNS:kubernetes,DNS:kubernetes.default.svc"
cert admin /O=system:masters/CN=admin
for part in kube-controller-manager kube-scheduler; do
  cert "$part" "/CN=system:$part"
  kubeconfig "$part.conf" "$part"
done
for n in $(nodes); do
  cert "$n" "/O=system:nodes/CN=system:node:$n" "IP:$(addr "$n"),DNS:$n"
  kubeconfig "$n.conf" "$n"
done
kubeconfig "$run/kubeconfig" admin
export KUBECONFIG=$run/kubeconfig
say "machines and keys"

# --- control plane --------------------------------------------------------------------------------------------------
# Memory, not disk: etcd waits for every write to be on it.
inside cp mount -t tmpfs tmpfs "$run/cp"
start cp etcd etcd --data-dir "$run/cp/etcd" --listen-client-urls http://127.0.0.1:2379 \
  --advertise-client-urls http://127.0.0.1:2379 --listen-peer-urls http://127.0.0.1:2380
start cp apiserver kube-apiserver --etcd-servers=http://127.0.0.1:2379 --bind-address="$(addr cp)" \
  --advertise-address="$(addr cp)" --secure-port=6443 --tls-cert-file="$pki/apiserver.crt" \
  --tls-private-key-file="$pki/apiserver.key" --client-ca-file="$pki/ca.crt" --allow-privileged=true \
  --kubelet-client-certificate="$pki/apiserver.crt" --kubelet-client-key="$pki/apiserver.key" \
  --kubelet-certificate-authority="$pki/ca.crt" --kubelet-preferred-address-types=InternalIP \
  --service-account-key-file="$pki/service-accounts.key" \
  --service-account-signing-key-file="$pki/service-accounts.key" \
  --service-account-issuer=https://kubernetes.default.svc --service-cluster-ip-range=10.96.0.0/16 \
  --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction \
  --default-not-ready-toleration-seconds="$K8S_EVICT" --default-unreachable-toleration-seconds="$K8S_EVICT" ${K8S_APISERVER_FLAGS:-}
within 60 "API server ready" "$kubectl" get --raw /readyz
start cp controller-manager kube-controller-manager --kubeconfig="$pki/kube-controller-manager.conf" --bind-address=127.0.0.1 \
  --port=0 --use-service-account-credentials=true --service-account-private-key-file="$pki/service-accounts.key" \
  --root-ca-file="$pki/ca.crt" --leader-elect=false --node-monitor-period=1s --node-monitor-grace-period="${K8S_GRACE}s"
start cp scheduler kube-scheduler --kubeconfig="$pki/kube-scheduler.conf" --bind-address=127.0.0.1 --port=0 --leader-elect=false

# --- nodes ----------------------------------------------------------------------------------------------------------
for n in $(nodes); do
  mkdir -p "$run/$n"/{cni,kubelet,volumes}
  cat >"$run/$n/containerd.toml" <<CONF
version = 2
root = "$run/$n/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.tracing.processor.v1.otlp"]
[grpc]
  address = "$run/$n/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "local/pause:1"
  disable_hugetlb_controller = true
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  stream_server_address = "127.0.0.1"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "$tool/usr/lib/cni"
  conf_dir = "$run/$n/cni"
CONF
  cat >"$run/$n/cni/net.conflist" <<CONF
{"cniVersion": "0.4.0", "name": "pods", "plugins": [{"type": "bridge", "bridge": "cni0", "isDefaultGateway": true,
  "ipam": {"type": "host-local", "ranges": [[{"subnet": "$(pods "$n").0/24"}]]}}]}
CONF
  cat >"$run/$n/kubelet.yaml" <<CONF
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $(addr "$n")
readOnlyPort: 0
tlsCertFile: $pki/$n.crt
tlsPrivateKeyFile: $pki/$n.key
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $pki/ca.crt}}
authorization: {mode: Webhook}
cgroupDriver: cgroupfs
cgroupRoot: /$K8S_NAME/$n
failSwapOn: false
makeIPTablesUtilChains: false
hairpinMode: none
volumePluginDir: $run/$n/volumes
nodeStatusUpdateFrequency: 2s
nodeLeaseDurationSeconds: $K8S_GRACE
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%, nodefs.inodesFree: 1%}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
CONF
  start "$n" containerd containerd --config "$run/$n/containerd.toml"
done
for n in $(nodes); do
  ctr="ctr --address $run/$n/containerd.sock --namespace k8s.io"
  within 30 "$n: containerd ready" $ctr version
  for image in "$bin"/*.tar; do $ctr images import "$image" >/dev/null; done
  start "$n" kubelet kubelet --config="$run/$n/kubelet.yaml" --kubeconfig="$pki/$n.conf" --hostname-override="$n" \
    --node-ip="$(addr "$n")" --root-dir="$run/$n/kubelet" --container-runtime=remote \
    --container-runtime-endpoint="unix://$run/$n/containerd.sock"
done
for n in $(nodes); do
  within 60 "$n: registered" "$kubectl" get node "$n"
  "$kubectl" wait --for=condition=Ready --timeout=60s "node/$n" >&2
done
within 30 "default service account" "$kubectl" get serviceaccount default
echo "$KUBECONFIG"
