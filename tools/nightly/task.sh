#!/usr/bin/env bash
# Does everything that takes hours, one after the other.
#
# usage: ./run nightly [PART...]
#
# What is too long for every change, one part after the other; hours. Each part is counted once, its
# output is kept in build-nightly/PART.log.
#   includes   compiles every source by itself: none lacks an include that a neighbour brought along
#   full       ./run test full: every test under sanitizers, long fuzzing
#   race       ./run test race: ThreadSanitizer
#   fault      ./run fault full: thousands of kills, every failpoint twenty times, planted bugs
#   chart      ./run chart --start-engine: rendered pods run in containers
#   compose    ./run compose --start-engine: clusters of containers
#   debian     the Debian set on a cluster, trained to its end
#   coverage   ./run coverage: lines of core and services that tests execute
# The last line of output is `N passed, N failed, N skipped`.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tools/common/base.sh
source tools/common/packages.sh

PARTS=(includes full race fault chart compose debian coverage)
LOGS=build-nightly

# Every source by itself: units of several sources hide an include that is missing.
part_includes() { cmake --preset single && cmake --build --preset single; }
part_full() { ./run test full; }
part_race() { ./run test race; }
part_fault() { ./run fault full; }
part_chart() { ./run chart --start-engine; }
part_compose() { ./run compose --start-engine; }
part_debian() { ./run test --only debian_cluster; }
part_coverage() { ./run coverage; }

for part in "${@:-${PARTS[@]}}"; do
  declare -F "part_$part" >/dev/null ||
    usage_error "nightly: unknown part '$part'; there are: ${PARTS[*]}"
done
need "${BUILD_PACKAGES[@]}" "${PYTHON_PACKAGES[@]}"
mkdir -p "$LOGS"
passed=0 failed=0 skipped=0
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
