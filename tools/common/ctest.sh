# Runs tests by the presets of CMakePresets.json. Sourced after report.sh and buf.sh.
# shellcheck shell=bash

# A test of processes waits more than it computes: more than there are processors run side by side.
readonly TEST_JOBS="${DSLIDE_TEST_JOBS:-$((JOBS + 2))}"

# run_ctest PRESET FOLDER NAME [PATTERN]: runs the tests of a preset, whose build is in FOLDER, and
# counts every case; with a PATTERN only those that have it in their names.
run_ctest() {
  local preset="$1" folder="$ROOT/$2" name="$3" pattern="${4:-}" only=() status=0
  local report="$folder/report-$name.xml"
  if [[ -n "$pattern" ]]; then only=(--tests-regex "_tests\\.[0-9]+\$|$pattern"); fi
  rm -rf "$report" "${folder:?}/reports"
  DSLIDE_BUF="$(find_buf && printf '%s' "$BUF" || true)" GTEST_FILTER="*${pattern:+$pattern*}" \
    ctest --preset "$preset" -j "$TEST_JOBS" --output-junit "$report" "${only[@]}" \
    </dev/null 2>&1 | ctest_lines >&2 || status=$?
  count_lines "$name" "$status" < <(
    "$PYTHON" tools/common/junit_counts.py "$report" "$folder/reports" || printf 'counts 0 1 0\n'
  )
}

# Leaves out the lines of passed cases when the output is a file or a pipe.
ctest_lines() {
  if [[ -t 2 ]]; then
    cat
  else
    grep -v -E '^ *Start +[0-9]+:|Test +#[0-9]+:.* Passed +[0-9.]+ sec$' || true
  fi
}
