#!/usr/bin/env bash
# What ./run nightly does: every check that takes too long for each change, one after the other. A part
# that fails does not keep the others from running. See help in `run`.
#
# usage: nightly.sh LOG_FOLDER [PART...]

set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."

PARTS=(includes full race fault chart compose debian coverage)
LOGS="$1"
shift

# Every source by itself: units of several sources hide an include that is missing.
part_includes() {
  cmake -S . -B build-single -G Ninja -DCMAKE_BUILD_TYPE=Debug -DDSLIDE_QUICK_BUILD=OFF
  ninja -C build-single
}
part_full() { ./run test full; }
part_race() { ./run test race; }
part_fault() { ./run fault full; }
part_chart() { ./run chart --start-engine; }
part_compose() { ./run compose --start-engine; }
part_debian() { DSLIDE_TEST_LONG=1 ./run test --only debian_cluster; }
part_coverage() { ./run coverage; }

passed=0 failed=0 skipped=0
mkdir -p "$LOGS"
for part in "${@:-${PARTS[@]}}"; do
  if ! declare -F "part_$part" >/dev/null; then
    printf 'nightly: unknown part %s; there are: %s\n' "'$part'" "${PARTS[*]}" >&2
    exit 2
  fi
done
for part in "${@:-${PARTS[@]}}"; do
  begun=$SECONDS status=0
  printf '== %s (log: %s)\n' "$part" "$LOGS/$part.log" >&2
  ("part_$part") >"$LOGS/$part.log" 2>&1 </dev/null || status=$?
  case "$status" in
    0) verdict=passed passed=$((passed + 1)) ;;
    77) verdict=skipped skipped=$((skipped + 1)) ;;
    *) verdict=FAILED failed=$((failed + 1)) ;;
  esac
  printf '%-10s %-8s %4d min  %s\n' "$part" "$verdict" $(((SECONDS - begun) / 60)) \
    "$(tail -n 1 "$LOGS/$part.log")"
done
printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[[ $failed == 0 && $passed -gt 0 ]]
