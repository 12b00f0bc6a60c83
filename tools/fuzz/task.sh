#!/usr/bin/env bash
# Runs every libFuzzer target for a while.
#
# usage: ./run fuzz [seconds] [targets...]
#
# Builds the libFuzzer targets with clang and sanitizers and runs each for `seconds` (default 60),
# or only the named ones. Inputs that crash a target are kept in build-asan/fuzz/.
# The last line of output is `N passed, N failed, N skipped`.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tools/common/base.sh
source tools/common/packages.sh
source tools/common/builds.sh
source tools/common/report.sh
source tools/common/sanitizers.sh

seconds="${1:-60}"
if [[ $# -gt 0 ]]; then shift; fi
[[ "$seconds" =~ ^[1-9][0-9]*$ ]] ||
  usage_error "fuzz: seconds is '$seconds'; give a whole number >= 1"
need "${SANITIZER_PACKAGES[@]}" "${PYTHON_PACKAGES[@]}"
build_or_die asan fuzzers
fuzz_all "$seconds" "$@"
finish_report
