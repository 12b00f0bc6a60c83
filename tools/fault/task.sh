#!/usr/bin/env bash
# Kills processes, spoils connections, damages files; counts what was lost.
#
# usage: ./run fault [quick|full] [--only PART[,PART]] [--set FIELD=VALUE]... [--seed N]
#                    [-o json] [--bin-dir DIR]
#        ./run fault planted [--set planted=NAME] [-o json]
#
# Builds, then kills and stops processes, spoils connections, damages files, fills disks, sends
# poison, too much and nonsense, and simulates clusters, and checks that nothing that was
# acknowledged is lost or applied twice, and that what is damaged is refused or harmless. What is
# not tested is named, and its keys in the JSON are null.
#   quick     (default) some of everything; about ten minutes, more without a compiler cache
#   full      thousands of kills, ten thousand damaged files, every failpoint twenty times, a
#             hundred thousand simulated clusters; hours
#   planted   only this part of both: plants fifteen bugs one by one in a copy of the sources
#             (build-planted/), and demands that a test notices each
#   --only PARTS  some of kills, jobs, increments, failpoints, damage, drains, poison, disks,
#                 overload, abuse, simulation, restores, planted; runs of different parts may run
#                 beside each other
#   --set F=VALUE another number than the tier's, for example poison=100000; a wrong name lists them
#   --seed N      repeats a run's choices; without it one is drawn, and printed first
#   -o json       the last line of stdout is one JSON object
#   --bin-dir DIR tests the programs there instead of building
# Each piece, and how to go on from a failure: docs/contribute/reliability-testing.md.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tools/common/base.sh
source tools/common/test_python.sh
source tools/common/packages.sh
source tools/common/builds.sh

take_output "$@"
set -- "${ARGUMENTS[@]}"
tier=quick bin_dir='' arguments=()
while [[ $# -gt 0 ]]; do
  case "$1" in
    quick | full | planted) tier="$1" ;;
    --only | --set | --seed | --bin-dir)
      [[ $# -ge 2 ]] || usage_error "fault: $1 needs a value"
      if [[ "$1" == --seed && ! "$2" =~ ^[0-9]+$ ]]; then
        usage_error "fault: --seed is '$2'; give a whole number"
      fi
      if [[ "$1" == --bin-dir ]]; then bin_dir="$2"; else arguments+=("$1" "$2"); fi
      shift
      ;;
    *) usage_error "fault: unknown argument '$1'; see ./run fault --help" ;;
  esac
  shift
done
if [[ $JSON == yes ]]; then arguments+=(-o json); fi
need "${PYTHON_PACKAGES[@]}"
need_test_python
if [[ "$tier" == planted ]]; then
  [[ -z "$bin_dir" ]] ||
    usage_error 'fault planted: builds programs of its own; --bin-dir is of no use'
  need "${BUILD_PACKAGES[@]}"
  exec env DSLIDE_JOBS="$JOBS" "$TEST_PYTHON" tools/fault/fault_run.py quick --only planted \
    --bin-dir . "${arguments[@]}"
fi
# Wrong words are told before minutes of building.
"$TEST_PYTHON" tools/fault/fault_run.py "$tier" --check --bin-dir . "${arguments[@]}" || exit
# Planted bugs are built whatever --bin-dir says.
need "${BUILD_PACKAGES[@]}"
if [[ -z "$bin_dir" ]]; then
  build_or_die test dslide dslide-shard dslide-coordinator dslide_simulate dslide_tracer
  bin_dir=build/bin
fi
exec "$TEST_PYTHON" tools/fault/fault_run.py "$tier" --bin-dir "$bin_dir" "${arguments[@]}"
