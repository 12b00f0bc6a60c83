#!/usr/bin/env bash
# Runs libFuzzer targets (*_fuzz) one after the other or side by side, each for a given time.
#
# stdout: one line a target, `passed NAME`, `failed NAME` or `skipped WHY`; the targets' own output
# goes to stderr. Seeds are read from tests/fuzz/corpus/NAME; found inputs are kept in the work
# folder, those that crash a target as NAME/crash-*. Exits with 1 when a target failed.

set -euo pipefail

usage() {
  cat <<'TEXT'
usage: tests/fuzz/run_fuzzers.sh --bin-dir DIR [--seconds N] [--jobs N] [--work-dir DIR] [targets...]
TEXT
}

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
bin_dir='' seconds=60 jobs=1 work_dir=''
wanted=()
while [[ $# -gt 0 ]]; do
  case "$1" in
    --bin-dir | --seconds | --jobs | --work-dir)
      [[ $# -ge 2 ]] || {
        printf 'run_fuzzers: %s needs a value\n' "$1" >&2
        exit 2
      }
      case "$1" in
        --bin-dir) bin_dir="$2" ;;
        --seconds) seconds="$2" ;;
        --jobs) jobs="$2" ;;
        --work-dir) work_dir="$2" ;;
      esac
      shift
      ;;
    -h | --help)
      usage
      exit 0
      ;;
    -*)
      printf 'run_fuzzers: unknown option %s\n' "$1" >&2
      usage >&2
      exit 2
      ;;
    *) wanted+=("$1") ;;
  esac
  shift
done
if [[ ! -d "$bin_dir" ]]; then
  printf 'run_fuzzers: --bin-dir: no such folder: "%s"\n' "$bin_dir" >&2
  exit 2
fi
work_dir="${work_dir:-$bin_dir/../fuzz}"
mkdir -p "$work_dir"

if [[ ${#wanted[@]} == 0 ]]; then
  for program in "$bin_dir"/*_fuzz; do
    if [[ -x "$program" ]]; then wanted+=("$(basename "$program")"); fi
  done
fi
if [[ ${#wanted[@]} == 0 ]]; then
  printf 'skipped no fuzz targets (*_fuzz) in %s\n' "$bin_dir"
  exit 0
fi

# fuzz_one NAME: prints its verdict; a crash's input and stack are shown on stderr.
fuzz_one() {
  local name="$1"
  local found="$work_dir/$name"
  local log="$found/log"
  mkdir -p "$found/corpus"
  if [[ ! -x "$bin_dir/$name" ]]; then
    printf 'run_fuzzers: %s: not built\n' "$name" >&2
    printf 'failed %s\n' "$name"
    return
  fi
  local corpora=("$found/corpus")
  if [[ -d "$here/corpus/$name" ]]; then corpora+=("$here/corpus/$name"); fi
  local status=0
  # A target that hangs in one input is stopped by libFuzzer (-timeout), one that ignores that by us.
  timeout --kill-after=10 "$((seconds + 120))" "$bin_dir/$name" -max_total_time="$seconds" \
    -timeout=10 -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1 -verbosity=0 \
    -artifact_prefix="$found/" "${corpora[@]}" </dev/null >"$log" 2>&1 || status=$?
  local runs
  runs="$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")"
  if [[ $status == 0 && "${runs:-0}" -gt 0 ]]; then
    printf '   %s: %s inputs, no crash\n' "$name" "$runs" >&2
    printf 'passed %s\n' "$name"
  else
    {
      printf -- '--- %s failed with status %d; its output (%s):\n' "$name" "$status" "$log"
      tail -n 60 "$log"
    } >&2
    printf 'failed %s\n' "$name"
  fi
}

verdicts="$work_dir/verdicts"
: >"$verdicts"
running=0
for name in "${wanted[@]}"; do
  if [[ $running -ge $jobs ]]; then
    wait -n
    running=$((running - 1))
  fi
  fuzz_one "$name" >>"$verdicts" &
  running=$((running + 1))
done
wait
cat "$verdicts"
if grep -q '^failed' "$verdicts"; then exit 1; fi
