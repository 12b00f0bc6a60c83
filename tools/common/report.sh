# Counts what passed, failed and was skipped, and ends with these counts. Sourced after base.sh.
# shellcheck shell=bash

source tools/common/steps.sh

PASSED=0
FAILED=0
SKIPPED=0
FAILED_NAMES=()

count() {
  PASSED=$((PASSED + $1))
  FAILED=$((FAILED + $2))
  SKIPPED=$((SKIPPED + $3))
}

failed() {
  count 0 1 0
  FAILED_NAMES+=("$1")
  note "FAILED: $1"
}

skipped() {
  count 0 0 1
  note "SKIPPED: $1"
}

# run_check NAME COMMAND...: counts one check. The command runs in its own shell, so that its
# failure ends the check and not the report.
run_check() {
  local name="$1" status=0
  shift
  set +e
  (
    set -e
    "$@"
  ) >&2
  status=$?
  set -e
  if [[ $status == 0 ]]; then count 1 0 0; else failed "$name"; fi
}

# count_lines NAME STATUS: counts what a tool says on stdin: a line `counts PASSED FAILED SKIPPED`,
# and lines `failed CASE` and `skipped CASE`. The tool's own status outranks its counts.
count_lines() {
  local name="$1" status="$2" line passed_cases=0 failed_cases=0 skipped_cases=0
  while read -r line; do
    case "$line" in
      counts*) read -r _ passed_cases failed_cases skipped_cases <<<"$line" ;;
      failed*) FAILED_NAMES+=("$name: ${line#failed }") ;;
      skipped*) note "SKIPPED: ${line#skipped }" ;;
    esac
  done
  count "$passed_cases" "$failed_cases" "$skipped_cases"
  if [[ $status != 0 && $failed_cases == 0 ]]; then failed "$name: ended with status $status"; fi
}

# Prints the closing lines; its status is that of the run.
finish_report() {
  local name
  end_check
  for name in "${FAILED_NAMES[@]}"; do note "failed: $name"; done
  note "took $((SECONDS / 60)) min $((SECONDS % 60)) s"
  if [[ "${JSON:-no}" == yes ]]; then
    printf '%d passed, %d failed, %d skipped\n' "$PASSED" "$FAILED" "$SKIPPED" >&2
    printf '{"passed": %d, "failed": %d, "skipped": %d, "seconds": %d}\n' \
      "$PASSED" "$FAILED" "$SKIPPED" "$SECONDS"
  else
    printf '%d passed, %d failed, %d skipped\n' "$PASSED" "$FAILED" "$SKIPPED"
  fi
  [[ $FAILED == 0 && $PASSED -gt 0 ]]
}
