#!/usr/bin/env bash
# Measures: kernels, RPCs, training, a cluster on slow links, growth.
#
# usage: ./run bench NAME [--quick] [-o json] [options...]
#
# Builds what is needed, measures, keeps the result as bench-results/NAME.json and shows it.
#   micro       every kernel beside its slow reference and beside the limits of this machine
#   rpc         gather, scatter and streams beside raw TCP; 2 to 4 minutes (options of
#               `dslide-bench rpc`; --budget SECONDS for each congestion control)
#   train       dslide beside the dense baseline on the 670 K shape (options of `dslide-bench
#               train`)
#   cluster     two shards and a trainer over links of 1 Gbit/s and 100 Mbit/s, beside dense data
#               parallel and, where it is installed, PyTorch DistributedDataParallel: samples/s,
#               bytes, time to equal accuracy; needs root (--with-torch installs it, 6 GB;
#               --no-torch, --race-data NAME|FOLDER, --race-steps N, --race-limit SECONDS)
#   durability  the command log, checkpoints and restarts beside a training without them
#   growth      samples/s against rows, hidden width, threads, shards and trainers
#   capacity    one and four billion parameters on four shards, beside what `dslide plan` says
#   python      the Python client: rows beside generated stubs, training beside the C++ trainer
#   peers       dslide without a model spec beside PECOS, napkinXC, omikuji, fastText: accuracy,
#               time, memory; installs them in the cache folder; hours (--data NAME|FOLDER, --seeds
#               N, --page FOLDER, --with-torch, --no-install, --limit SECONDS). Not a part of all
#   paper       the tables of the papers of SLIDE and D-SLIDE, on their data sets, of those that are
#               in DIR (--data DIR, --sets NAMES, --points N, --test-points N, --epochs N, --limit
#               SECONDS, --page FOLDER). Not a part of all
#   neighbours  searches of the memory's index beside a plain scan, 10,000 to a million points;
#               10 minutes and 8 GB (options of `dslide-bench neighbours`). Not a part of all
#   serve       predictions of one thread beside the memory's speed, exact and hashed, on generated
#               data of 670,091 labels or others; or of what `dslide train` chooses without a spec
#               (--data NAME|FOLDER, --model FILE or --no-spec, --epochs N, --queries N). Not a part
#               of all
#   torch       the PyTorch head on shards beside PyTorch's own: equal steps, accuracy at a speed,
#               670,091 labels (--with-torch installs PyTorch, 6 GB; --parts
#               equal,learn,wide, --data NAME|FOLDER, --points N, --epochs N, --steps N, --dense-steps
#               N, --shards N). Not a part of all
#   report      docs/understand/benchmarks.md and its plots from the kept results; measures nothing
#   all         all of them, then the report; half an hour to 50 minutes on two quiet cores
#   --quick     tiny shapes, seconds: only to see that it runs. Kept in bench-results/quick/, which
#               the report does not read
#   -o json     the last line of stdout is the result as one JSON object
# A benchmark that this machine cannot do is skipped loudly. How to read the figures:
# docs/contribute/benchmarking.md.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tools/common/base.sh
source tools/common/test_python.sh
source tools/common/packages.sh
source tools/common/builds.sh
source tools/common/report.sh

readonly BENCHMARKS=(micro rpc train cluster durability growth capacity python)
# No part of `all`: peers installs other people's packages and paper reads other people's data, each
# for hours; neighbours needs 8 GB; serve trains a model first; torch needs 6 GB of other packages.
readonly BENCHMARKS_APART=(peers paper neighbours serve torch)
readonly BENCH_RESULTS=bench-results

# bench_packages NAME ARGUMENTS...
bench_packages() {
  case "$1" in
    train | growth | paper) need "${BENCH_DENSE_PACKAGES[@]}" ;;
    cluster)
      need "${BENCH_DENSE_PACKAGES[@]}" "${BENCH_CLUSTER_PACKAGES[@]}"
      if given --with-torch "$@"; then need "${BENCH_PEERS_PACKAGES[@]}"; fi
      ;;
    rpc) need "${BENCH_CLUSTER_PACKAGES[@]}" ;;
    python | torch) need "${CLIENT_PACKAGES[@]}" ;;
    peers) need "${BENCH_PEERS_PACKAGES[@]}" "${BENCH_REPORT_PACKAGES[@]}" ;;
  esac
}

# bench_build NAME ARGUMENTS...: the benchmark's targets beside the programs.
bench_build() {
  local targets=()
  need "${BUILD_PACKAGES[@]}" "${PYTHON_PACKAGES[@]}"
  bench_packages "$@"
  if [[ "$1" == micro ]]; then targets=(kernels_benchmark dslide-bench); fi
  say "Building for ./run bench $1 (Release, $JOBS jobs)"
  configure release && compile release "${targets[@]}"
}

# bench_command NAME ARGUMENTS...: runs it; the last line of its stdout is its result.
bench_command() {
  local name="$1"
  shift
  local quick=() model=(--model docs/models/wide-670k.json)
  if [[ "$BENCH_QUICK" == yes ]]; then quick=(--quick); fi
  # Shards and the trainer share the processors: a thread that waits for work must not spin.
  export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-passive}"
  case "$name" in
    train)
      if [[ "$BENCH_QUICK" == yes ]]; then
        quick=(--features 2000 --labels 5000 --points 4000 --eval-points 500 --epochs 1
          --max-repeats 2)
      fi
      if given --model "$@" || given --data "$@"; then model=(); fi
      build/bin/dslide-bench train -o json "${quick[@]}" "${model[@]}" "$@"
      ;;
    neighbours)
      if [[ "$BENCH_QUICK" == yes ]]; then
        quick=(--features 2000 --labels 500 --sizes "500,2000" --queries 20 --rounds 1)
      fi
      build/bin/dslide-bench neighbours -o json "${quick[@]}" "$@"
      ;;
    durability)
      need_test_python
      "$TEST_PYTHON" bench/durability/durability_benchmark.py --bin-dir build/bin -o json "${quick[@]}" "$@"
      ;;
    *)
      "$PYTHON" "bench/$name/${name}_benchmark.py" --bin-dir build/bin -o json "${quick[@]}" "$@"
      ;;
  esac
}

# bench_one NAME ARGUMENTS...: builds, measures, keeps the result. Sets BENCH_FILE. Status 77: this
# machine cannot do it.
bench_one() {
  local name="$1" folder="$BENCH_RESULTS" status=0
  shift
  if [[ "$BENCH_QUICK" == yes ]]; then folder="$BENCH_RESULTS/quick"; fi
  mkdir -p "$folder"
  BENCH_FILE="$folder/$name.json"
  bench_build "$name" "$@" >&2 || return 1
  say "Measuring: $name"
  bench_command "$name" "$@" >"$BENCH_FILE.part" || status=$?
  if [[ $status == 0 ]] && tail -n 1 "$BENCH_FILE.part" | grep -q '^{'; then
    tail -n 1 "$BENCH_FILE.part" >"$BENCH_FILE"
    rm -f "$BENCH_FILE.part"
    return 0
  fi
  rm -f "$BENCH_FILE.part"
  if [[ $status == 0 ]]; then status=1; fi
  return "$status"
}

bench_report() {
  need "${PYTHON_PACKAGES[@]}" "${BENCH_REPORT_PACKAGES[@]}"
  "$PYTHON" bench/report/report.py --results "$BENCH_RESULTS" --output docs/understand >&2
}

# Measures everything there is, whatever fails.
bench_all() {
  local name status
  for name in "${BENCHMARKS[@]}"; do
    status=0
    bench_one "$name" || status=$?
    case "$status" in
      0) count 1 0 0 ;;
      77) skipped "bench $name (its reason is above)" ;;
      *) failed "bench $name" ;;
    esac
  done
  if [[ "$BENCH_QUICK" == no ]]; then run_check report bench_report; fi
  finish_report
}

take_output "$@"
set -- "${ARGUMENTS[@]}"
name="${1:-}" status=0 rest=() BENCH_QUICK=no
if [[ $# -gt 0 ]]; then shift; fi
[[ " ${BENCHMARKS[*]} ${BENCHMARKS_APART[*]} report all " == *" $name "* ]] ||
  usage_error "bench: unknown benchmark '$name'; there are: ${BENCHMARKS[*]} \
${BENCHMARKS_APART[*]} report all"
for argument in "$@"; do
  if [[ "$argument" == --quick ]]; then BENCH_QUICK=yes; else rest+=("$argument"); fi
done
if [[ "$name" == report || "$name" == all ]]; then
  if [[ ${#rest[@]} -gt 0 ]]; then usage_error "bench $name: unknown argument '${rest[0]}'"; fi
  "bench_$name"
  exit
fi
bench_one "$name" "${rest[@]}" || status=$?
if [[ $status != 0 ]]; then
  note "bench $name ended with status $status"
  exit "$status"
fi
if [[ "$JSON" == yes ]]; then
  cat "$BENCH_FILE"
else
  "$PYTHON" bench/report/report.py --show "$name" "$BENCH_FILE"
  note "kept in $BENCH_FILE"
fi
