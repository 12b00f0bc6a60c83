# Fuzzing, and what sanitized programs need that ctest does not start. Sourced after report.sh.
# shellcheck shell=bash

# export_environment PRESET: what CMakePresets.json sets for the programs of a preset.
export_environment() {
  local settings setting
  settings="$("$PYTHON" tools/common/preset_environment.py "$1")"
  while read -r setting; do export "${setting?}"; done <<<"$settings"
}

# fuzz_all SECONDS TARGETS...: counts one check for each target; all without TARGETS.
fuzz_all() {
  local seconds="$1" line
  shift
  step fuzzing
  say "Fuzzing, $seconds s a target"
  export_environment asan
  while read -r line; do
    case "$line" in
      passed\ *) count 1 0 0 ;;
      failed\ *) failed "fuzz ${line#failed }" ;;
      skipped\ *) skipped "fuzz: ${line#skipped }" ;;
    esac
  done < <(tests/fuzz/run_fuzzers.sh --bin-dir build-asan/bin --seconds "$seconds" \
    --jobs "$JOBS" --work-dir build-asan/fuzz "$@" || true)
}
