# The journal of a check: one line a step in build/steps.tsv, for ./run times. Sourced by report.sh.
# shellcheck shell=bash

readonly STEPS_FILE=build/steps.tsv
CHECK=''
CHECK_TIME=''
STEP=''

# Sets CLOCKS to the wall clock and the user and system time of the children, in hundredths of a
# second.
read_clocks() {
  local stat
  read -r -a stat <"/proc/$BASHPID/stat"
  CLOCKS=($((${EPOCHREALTIME//[!0-9]/} / 10000)) "${stat[15]}" "${stat[16]}")
}

# write_step NAME CLOCKS...: appends what has passed since the clocks stood like this.
write_step() {
  local name="$1" begun=("${@:2}") columns=() i passed
  read_clocks
  for i in 0 1 2; do
    passed=$((CLOCKS[i] - begun[i]))
    columns+=("$(printf '%d.%02d' $((passed / 100)) $((passed % 100)))")
  done
  local IFS=$'\t'
  printf '%s\n' "$CHECK_TIME"$'\t'"$CHECK"$'\t'"$name"$'\t'"${columns[*]}" >>"$STEPS_FILE"
}

# begin_check NAME: the steps that follow are of this check, until end_check.
begin_check() {
  CHECK="$1" CHECK_TIME="$(date -u +%Y-%m-%dT%H:%M:%SZ)" STEP=''
  mkdir -p "$(dirname "$STEPS_FILE")"
  if [[ ! -s "$STEPS_FILE" ]]; then
    printf 'check_time\tcheck\tstep\tseconds\tuser_seconds\tsystem_seconds\n' >"$STEPS_FILE"
  fi
  read_clocks
  CHECK_CLOCKS=("${CLOCKS[@]}")
}

# Writes the step that has begun, if one has.
end_step() {
  if [[ -n "$STEP" ]]; then write_step "$STEP" "${STEP_CLOCKS[@]}"; fi
  STEP=''
}

# step NAME: the step before it ends here, and this one begins. Does nothing outside of a check.
step() {
  if [[ -z "$CHECK" ]]; then return 0; fi
  end_step
  STEP="$1"
  read_clocks
  STEP_CLOCKS=("${CLOCKS[@]}")
}

# Ends the last step and writes the total.
end_check() {
  if [[ -z "$CHECK" ]]; then return 0; fi
  end_step
  write_step total "${CHECK_CLOCKS[@]}"
  CHECK=''
}
