# Checks of the C++ sources themselves. Sourced after builds.sh and report.sh.
# shellcheck shell=bash

readonly CLANG_FORMAT_VERSION=14

# The project's own C++ files.
cpp_files() {
  find core services client tests bench include -name node_modules -prune -o \
    \( -name '*.cc' -o -name '*.h' \) -print | sort
}

check_format() {
  say 'Checking the format (fix: ./run format)'
  cpp_files | xargs -r -P "$JOBS" -n 40 clang-format --dry-run --Werror -ferror-limit=5
}

# Counts the check of the format. Other versions of clang-format break lines at other places.
test_format() {
  local version
  version="$(clang-format --version 2>/dev/null | sed -n -E 's/.*version ([0-9]+)\..*/\1/p')"
  if [[ "$version" == "$CLANG_FORMAT_VERSION" ]]; then
    run_check format check_format
  else
    skipped "format: this is clang-format ${version:-(none)}, the sources have the format of \
$CLANG_FORMAT_VERSION"
  fi
}

# check_tidy [SOURCES...]: all of them without arguments.
check_tidy() {
  say 'Checking with clang-tidy'
  # clang-tidy reads the generated protobuf headers, so they must exist.
  configure test
  compile test dslide_proto
  "$PYTHON" tools/lint/tidy.py --build-dir build --cache-dir "$DSLIDE_CACHE_DIR/tidy" \
    --jobs "$JOBS" "$@"
}
