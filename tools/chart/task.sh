#!/usr/bin/env bash
# Tests the Helm chart: renders it, checks what comes out, runs it.
#
# usage: ./run chart [--update] [--start-engine] [--bin-dir DIR] [-o json]
#
# Renders the Helm chart helm/dslide with every file of values in helm/dslide/ci and checks the
# result: conventions, golden files, refusals, the definitions of Kubernetes (with npm), the real
# programs on the rendered command lines, and the rendered pods under a container engine where one
# answers (DOCKER_HOST). What this machine cannot do is skipped loudly. No cluster is needed or
# used.
#   --update        first renew golden files, README.md and the copies of dashboards and alerts
#   --start-engine  starts a private dockerd for the pods (root; installs docker.io); all that it
#                   makes goes away at the end
#   --bin-dir DIR   use the programs there instead of building
#   -o json         the last line of stdout is one JSON object
#
# Rendering is done by the helm that DSLIDE_HELM names, else by that of tools/helm, built from its
# Go module: four minutes, once. Where that cannot be had, by helm on PATH. See
# docs/operate/kubernetes.md.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tools/common/base.sh
source tools/common/test_python.sh
source tools/common/packages.sh
source tools/common/builds.sh
source tools/chart/rendering.sh

take_output "$@"
set -- "${ARGUMENTS[@]}"
bin_dir='' arguments=()
while [[ $# -gt 0 ]]; do
  case "$1" in
    --update | --start-engine) arguments+=("$1") ;;
    --bin-dir)
      [[ $# -ge 2 ]] || usage_error 'chart: --bin-dir needs a value'
      bin_dir="$2"
      shift
      ;;
    *) usage_error "chart: unknown argument '$1'; see ./run chart --help" ;;
  esac
  shift
done
if [[ $JSON == yes ]]; then arguments+=(-o json); fi
need "${PYTHON_PACKAGES[@]}"
need_test_python
need_for_chart
if given --start-engine "${arguments[@]}" && [[ -z "${DOCKER_HOST:-}" ]]; then
  unstarted need "${ENGINE_PACKAGES[@]}"
fi
if [[ -z "$bin_dir" ]]; then
  build_or_die release
  bin_dir=build/bin
fi
say 'Testing the Helm chart'
exec "$TEST_PYTHON" tools/chart/chart_run.py --bin-dir "$bin_dir" "${arguments[@]}"
