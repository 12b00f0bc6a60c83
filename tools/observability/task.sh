#!/usr/bin/env bash
# Watches a cluster with a real Prometheus: metrics, dashboards, alerts.
#
# usage: ./run observability [--pictures] [--bin-dir DIR] [-o json]
#
# Installs Debian's prometheus (its service is not started), runs a small cluster under it, and
# checks the metrics pages and every query of every dashboard; then it makes the cause of every
# alert: some minutes. Ends with a line of JSON: queries, non_empty, alerts, promtool_findings.
#   --pictures     also draws docs/images/ (installs matplotlib and chromium)
#   --bin-dir DIR  programs that are built already; otherwise they are built
#   -o json        the last line of stdout is the result as one JSON object (it always is)

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tools/common/base.sh
source tools/common/test_python.sh
source tools/common/packages.sh
source tools/common/builds.sh

take_output "$@"
set -- "${ARGUMENTS[@]}"
bin_dir='' draw=no status=0
while [[ $# -gt 0 ]]; do
  case "$1" in
    --pictures) draw=yes ;;
    --bin-dir)
      [[ -n "${2:-}" ]] || usage_error 'observability: --bin-dir needs a value'
      bin_dir="$2"
      shift
      ;;
    *) usage_error "observability: unknown argument '$1'; see ./run observability --help" ;;
  esac
  shift
done
need "${PYTHON_PACKAGES[@]}"
need_test_python
if ! command -v promtool >/dev/null; then unstarted need prometheus; fi
if [[ $draw == yes ]]; then need "${BENCH_REPORT_PACKAGES[@]}" chromium; fi
if [[ -z "$bin_dir" ]]; then
  build_or_die release
  bin_dir=build/bin
fi
folder="$(mktemp -d)"
settings=("DSLIDE_OBSERVABILITY_RESULT=$folder/result.json" PYTHONDONTWRITEBYTECODE=1)
if [[ $draw == yes ]]; then settings+=("DSLIDE_OBSERVABILITY_PICTURES=$ROOT/docs/images"); fi
for name in dashboards metrics_reference top prometheus alert_causes; do
  say "observability: $name"
  env "${settings[@]}" "$TEST_PYTHON" -m pytest --config-file tests/pyproject.toml \
    --bin-dir "$bin_dir" "tests/observability/${name}_test.py" >&2 || status=1
done
cat "$folder/result.json" || status=1
rm -rf "$folder"
exit "$status"
