#!/usr/bin/env bash
# The provisioner's tests on a real cluster. Without KUBECONFIG it builds one from Debian's archive (once, in target/kubernetes),
# starts it with two nodes, and ends it afterwards. With KUBECONFIG it uses that one, whose nodes can fetch
# HIMALIA_TEST_KERNEL_IMAGE and HIMALIA_TEST_AGENT_IMAGE, and leaves out what kills parts of it. The gateway runs on this machine, so
# it must reach pods. HIMALIA_TEST_POLICIES=enforced: the cluster's network enforces policies. Arguments go to pytest; with the argument
# `demo` it shows three replicas instead.
#
# HIMALIA_BIN, HIMALIA_TEST_SHIM (static) and TEST_PYTHON name what is tested.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
suites=("$root/tests/python/kubernetes/test_cluster.py")
if [ -n "${KUBECONFIG:-}" ]; then
  [ "${1:-}" != demo ] || die "the demo makes a cluster of its own: unset KUBECONFIG"
  : "${HIMALIA_TEST_KERNEL_IMAGE:?an image with python3 and ipykernel}" "${HIMALIA_TEST_AGENT_IMAGE:?docker/build-images.sh agent}"
  kubectl=${HIMALIA_TEST_KUBECTL:-kubectl}
else
  export K8S_NODES=2 HIMALIA_TEST_KERNEL_IMAGE=local/kernel:1 HIMALIA_TEST_AGENT_IMAGE=local/agent:1 HIMALIA_TEST_PULL_POLICY=Never
  trap '"$here/down.sh"' EXIT
  "$here/build.sh"
  "$here/images.sh" "$HIMALIA_TEST_SHIM" "$HIMALIA_BIN"
  KUBECONFIG=$("$here/up.sh")
  export KUBECONFIG
  export HIMALIA_TEST_GATEWAY_IMAGE=local/gateway:1
  HIMALIA_TEST_HOST=$(addr host)
  export HIMALIA_TEST_HOST
  HIMALIA_TEST_API_SERVER=$(addr cp):6443
  export HIMALIA_TEST_API_SERVER
  suites+=("$root/tests/python/kubernetes/test_replica_pods.py" "$root/tests/python/kubernetes/test_chart.py" "$root/tests/python/kubernetes/test_outages.py")
fi
export HIMALIA_TEST_KUBECTL=$kubectl
for part in namespaces rbac networkpolicy quota; do "$kubectl" apply -f "$root/docker/kubernetes/base/$part.yaml" >&2; done
if [ "${1:-}" = demo ]; then
  "$TEST_PYTHON" "$root/tests/python/kubernetes/demo.py"
  exit
fi
"$TEST_PYTHON" -m pytest -q --reruns "${RERUNS:-0}" "${suites[@]}" "$@"
