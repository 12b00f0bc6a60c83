#!/usr/bin/env bash
# Builds and runs tests: quick, ci, full or race.
#
# usage: ./run test [quick|ci|full|race] [--only PATTERN] [-o json]
#
# Builds and runs tests. The last line of output is `N passed, N failed, N skipped` (with -o json:
# one JSON object with these counts); the exit status is 0 when nothing failed.
#   quick   (default) format, Release build, every unit test, the tests of whole clusters that find
#           most for their time, the checks of the tree
#   ci      every test, the clients in other languages, clang-tidy of what has changed since it last
#           passed, the unit tests under address and undefined-behaviour sanitizers (clang), every
#           fuzz target for 10 s, the chart in a Kubernetes where that has been built before: .ci/run
#   full    ci with every test under the sanitizers, every fuzz target for 60 s, and a rehearsed
#           release
#   race    the unit tests, the simulator and the clusters of one process and of several, under
#           clang's ThreadSanitizer and nothing else
#   --only PATTERN   of the tests, only those whose name has it; nothing else is checked
#
# What a check costs, and where: docs/contribute/checks.md. What takes hours: ./run nightly.
#
# examples:
#   ./run test --only SlotMap
#   ./run test --only shard_crash

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tools/common/base.sh
source tools/common/packages.sh
source tools/common/builds.sh
source tools/common/report.sh
source tools/common/buf.sh
source tools/common/ctest.sh
source tools/common/sources.sh
source tools/common/sanitizers.sh
source tools/chart/rendering.sh

# What tests would skip without, beside what builds them. What cannot be had is gone on without: its
# tests are skipped and say so. Sets QUICK, the test preset of the quick tier.
QUICK=quick
need_for_tests() {
  local tier="$1"
  want_apt_index
  if [[ "$tier" == race ]]; then return 0; fi
  want "${TEST_PACKAGES[@]}"
  command -v promtool >/dev/null || unstarted want prometheus
  command -v systemd-analyze >/dev/null || unstarted want systemd
  if [[ "$tier" != quick ]]; then
    want "${BENCH_REPORT_PACKAGES[@]}" "${CLIENT_PACKAGES[@]}" "${PAGE_PACKAGES[@]}"
    command -v npm >/dev/null || want npm
    need_for_chart
  elif find_helm; then
    need_definitions
  else
    note 'the tests of the chart are left out until helm is here (minutes, once): ./run chart'
    QUICK=quick-without-chart
  fi
  install_buf
}

# build_tests PRESET TITLE: counts a build of everything as one check; false when it failed.
build_tests() {
  step "build, $2"
  say "Building the tests ($2, $JOBS jobs) into $(folder_of "$1")/"
  if configure "$1" && compile "$1"; then
    count 1 0 0
  else
    failed "build ($2)"
    return 1
  fi
}

# test_release PRESET [PATTERN]: builds everything and runs the tests of a test preset.
test_release() {
  build_tests test Release || return 0
  step 'tests, Release'
  say 'Running the tests'
  run_ctest "$1" build release "${2:-}"
}

# test_sanitizers PRESET FUZZ_SECONDS
test_sanitizers() {
  build_tests asan sanitizers || return 0
  step 'tests, sanitizers'
  say 'Running the tests under address and undefined-behaviour sanitizers'
  run_ctest "$1" build-asan sanitizers
  fuzz_all "$2"
}

# test_races [PATTERN]: data races in the test programs, and in the programs that the integration
# tests run.
test_races() {
  build_tests tsan ThreadSanitizer || return 0
  step 'tests, ThreadSanitizer'
  say 'Running the tests under ThreadSanitizer'
  run_ctest tsan build-tsan races "$1"
  if [[ -z "$1" ]]; then race_scripts; fi
}

# A program in which a race was seen ends with 66, which is no exit code that a test expects.
race_scripts() {
  local script name status
  export_environment tsan
  "$PYTHON" tools/common/test_environment.py build-tsan/python || exit
  for script in tests/integration/*_test.py; do
    name="$(basename "$script" .py)"
    # A long training, whose figures are all that it says.
    if [[ "$name" == debian_cluster_test ]]; then continue; fi
    note "$name"
    status=0
    build-tsan/python/bin/python -m pytest --config-file tests/pyproject.toml "$script" \
      --bin-dir build-tsan/bin >&2 || status=$?
    case "$status" in
      0) count 1 0 0 ;;
      77) count 0 0 1 ;;
      *) failed "races: $name" ;;
    esac
  done
}

# Tests the clients in other languages with the programs in build/, beside what follows: they wait
# more than they compute. finish_clients counts what ./run clients finds.
begin_clients() {
  want "${CLIENT_PACKAGES[@]}"
  say 'Testing the clients in other languages, beside what follows'
  CLIENTS_OUTPUT="$(mktemp -d)"
  trap 'kill "$CLIENTS" 2>/dev/null || true; rm -rf "$CLIENTS_OUTPUT"' EXIT
  "$PYTHON" tools/clients/clients.py --bin-dir build/bin -o lines >"$CLIENTS_OUTPUT/lines" \
    2>"$CLIENTS_OUTPUT/log" </dev/null &
  CLIENTS=$!
}

finish_clients() {
  local status=0
  step clients
  say 'Waiting for the clients in other languages'
  wait "$CLIENTS" || status=$?
  cat "$CLIENTS_OUTPUT/log" >&2
  count_lines clients "$status" <"$CLIENTS_OUTPUT/lines"
}

# Installs the chart in a real Kubernetes with the programs in build/. Building that takes longer
# than all else here: where it has not been built before, it is left out.
test_kubernetes() {
  local status=0
  step kubernetes
  say 'Trying the chart in a Kubernetes'
  timeout --kill-after 60 700 tools/kubernetes/task.sh smoke --bin-dir build/bin --no-build >&2 ||
    status=$?
  case "$status" in
    0) count 1 0 0 ;;
    77) skipped 'the chart in a Kubernetes (why: above)' ;;
    *) failed "kubernetes: ended with status $status" ;;
  esac
}

# A release into a registry on this machine, of the programs that users get, which are built for it.
test_rehearsal() {
  local status=0
  step release
  say 'Rehearsing a release'
  timeout --kill-after 60 1800 tools/release/task.sh rehearse --no-build >&2 || status=$?
  case "$status" in
    0) count 1 0 0 ;;
    77) skipped 'a rehearsed release (why: above)' ;;
    *) failed "release: ended with status $status" ;;
  esac
}

# test_thoroughly ci|full
test_thoroughly() {
  local checked=()
  step format
  test_format
  test_release ci
  begin_clients
  step clang-tidy
  # Of tests it finds little that costs users anything.
  if [[ "$1" == ci ]]; then
    mapfile -t checked < <(find core services client -name '*.cc' | sort)
  fi
  run_check clang-tidy check_tidy "${checked[@]}"
  if [[ "$1" == ci ]]; then
    # Clusters of sanitized processes take long, and find what the unit tests found before.
    test_sanitizers asan 10
    finish_clients
    test_kubernetes
  else
    test_sanitizers asan-full 60
    finish_clients
    test_kubernetes
    test_rehearsal
  fi
}

take_output "$@"
set -- "${ARGUMENTS[@]}"
tier=quick pattern=''
while [[ $# -gt 0 ]]; do
  case "$1" in
    quick | full | ci | race) tier="$1" ;;
    --only)
      [[ -n "${2:-}" ]] || usage_error 'test: --only needs a part of a name'
      pattern="$2"
      shift
      ;;
    *) usage_error "test: unknown argument '$1'; see ./run test --help" ;;
  esac
  shift
done
begin_check "test $tier${pattern:+ --only $pattern}"
step packages
packages=("${BUILD_PACKAGES[@]}" "${FORMAT_PACKAGES[@]}" "${PYTHON_PACKAGES[@]}")
if [[ "$tier" != quick ]]; then packages+=("${LINT_PACKAGES[@]}" "${SANITIZER_PACKAGES[@]}"); fi
need "${packages[@]}"
need_for_tests "$tier"

if [[ "$tier" == race ]]; then
  test_races "$pattern"
elif [[ -n "$pattern" ]]; then
  # Names choose among all tests, whichever tier they belong to.
  test_release test "$pattern"
elif [[ "$tier" == quick ]]; then
  step format
  test_format
  test_release "$QUICK"
else
  test_thoroughly "$tier"
fi
finish_report
