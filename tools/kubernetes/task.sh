#!/usr/bin/env bash
# Starts a real Kubernetes on this machine and lives in it with the chart.
#
# usage: ./run kubernetes [all|upgrades|faults|operators|readme|smoke|up|down] [--nodes N] [--bin-dir DIR]
#                         [--only PART] [--no-build] [-o json]
#
# Starts a real Kubernetes on this machine, in network namespaces that have no way out: etcd, API
# server, controllers, scheduler, DNS, and nodes with containerd and kubelet. Installs the chart in
# it with helm, from an image of this build, under the restricted Pod Security standard. Whatever
# happens, nothing of it stays. Needs root; skipped (status 77) where it cannot be had.
#   all       (default) upgrades, then faults
#   upgrades  three nodes: image, resources, certificates and number of trainers change, and the
#             coordinator moves, while a job trains, which has its epochs in the end, each once, and
#             is as good as one that nobody disturbed
#   faults    three nodes: one loses its power, two are drained, a shard is evicted, a volume is
#             full, the network between nodes is cut, while a job trains and a client counts; the
#             same holds, and no increment that was acknowledged is lost or there twice
#   operators one node with Kueue, which suspends a training three times, with cert-manager, which
#             renews the certificates of another, and with the Prometheus operator, whose Prometheus
#             watches a third; built as well, in twenty minutes, once
#   readme    one node as small as a laptop, and the three commands of README.md for an empty
#             Kubernetes, with a release of this tree in a registry on this machine: trains and
#             serves debian-packages, asks for predictions
#   smoke     one node: install, train, helm test, uninstall
#   up, down  starts one and leaves it (three nodes), ends it
#   --nodes N        that many nodes, 1 to 9
#   --only PART      of operators: kueue, cert-manager or prometheus; may be given twice
#   --bin-dir DIR    the programs there instead of building; of this machine's Debian release
#   --no-build       skipped where Kubernetes or helm would have to be built first
#   -o json          the last line of stdout is one JSON object: seconds of each step
#
# Its programs are built from Go modules: fifteen minutes with helm, once. See
# docs/contribute/kubernetes.md.
#
# examples:
#   ./run kubernetes smoke
#   ./run kubernetes up --nodes 1 && KUBECONFIG=... ip netns exec dslide-kubernetes kubectl get nodes

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tools/common/base.sh
source tools/common/test_python.sh
source tools/common/packages.sh
source tools/common/builds.sh
source tools/chart/rendering.sh

readonly SKIPPED=77
readonly KUBERNETES_DIR="$DSLIDE_CACHE_DIR/kubernetes"

skip() {
  note "SKIPPED: kubernetes: $*"
  exit "$SKIPPED"
}

take_output "$@"
set -- "${ARGUMENTS[@]}"
task=all bin_dir='' arguments=() find=()
case "${1:-}" in
  all | upgrades | faults | operators | readme | smoke | up | down)
    task="$1"
    shift
    ;;
esac
while [[ $# -gt 0 ]]; do
  case "$1" in
    --no-build) find=(--find) ;;
    --nodes | --only | --bin-dir)
      [[ $# -ge 2 ]] || usage_error "kubernetes: $1 needs a value"
      if [[ "$1" == --only ]]; then
        [[ "$task" == operators ]] || usage_error 'kubernetes: --only is for operators'
        [[ "$2" == @(kueue|cert-manager|prometheus) ]] ||
          usage_error "kubernetes: --only is kueue, cert-manager or prometheus, not '$2'"
      fi
      [[ "$1" != --nodes || "$task" != readme ]] || usage_error 'kubernetes: readme has one node'
      if [[ "$1" == --bin-dir ]]; then bin_dir="$2"; else arguments+=("$1" "$2"); fi
      shift
      ;;
    *) usage_error "kubernetes: unknown argument '$1'; see ./run kubernetes --help" ;;
  esac
  shift
done
if [[ $JSON == yes ]]; then arguments+=(-o json); fi

[[ "$(id -u)" == 0 ]] || skip 'namespaces and mounts need root'
unstarted need "${KUBERNETES_PACKAGES[@]}"
need "${PYTHON_PACKAGES[@]}"
if [[ ${#find[@]} == 0 ]]; then need_go; fi
programs="$(tools/kubernetes/programs.sh "${find[@]}" "$KUBERNETES_DIR")" ||
  skip "no programs of Kubernetes (messages above${find[*]:+; ./run kubernetes smoke builds them})"
helm="$(tools/helm/helm.sh "${find[@]}" "$DSLIDE_CACHE_DIR/helm")" ||
  skip "no helm (messages above${find[*]:+; ./run kubernetes smoke builds it})"
if [[ "$task" == operators ]]; then
  operators="$(tools/kubernetes/operators.sh "${find[@]}" "$KUBERNETES_DIR")" ||
    skip "no operators (messages above${find[*]:+; ./run kubernetes operators builds them})"
  arguments+=(--operators "$operators")
fi
if [[ "$task" == readme ]]; then
  crane="$(tools/release/crane.sh "${find[@]}" "$DSLIDE_CACHE_DIR/crane")" ||
    skip "no crane (messages above${find[*]:+; ./run kubernetes readme builds it})"
  want_apt_index  # of which the release makes its example
  have_apt_index || skip 'no apt index'
  arguments+=(--crane "$crane")
fi
if [[ -z "$bin_dir" && "$task" != down ]]; then
  build_or_die release dslide dslide-shard dslide-coordinator
fi
python="$PYTHON"
case "$task" in
  all | faults)  # the client that counts
    need_test_python
    python="$TEST_PYTHON"
    ;;
esac
say "Kubernetes: $task"
# What the tools for other faults have.
PYTHONPATH="$PWD/tools/common:$PWD/tools/fault" exec "$python" tools/kubernetes/kubernetes_run.py "$task" --programs "$programs" --helm "$helm" \
  --bin-dir "${bin_dir:-build/bin}" --work "$KUBERNETES_DIR/cluster" "${arguments[@]}"
