#!/usr/bin/env bash
# Checks the sources without running them: format, clang-tidy, layering and the tree.
#
# usage: ./run lint [format] [tidy] [tree]
#
# All three without arguments.
#   format   clang-format finds nothing to change (fix: ./run format)
#   tidy     clang-tidy, naming rules included; files that have not changed since they last passed
#            are remembered and skipped
#   tree     layering, registration of tests, links and commands in the docs, buf lint of the protos
# The last line of output is `N passed, N failed, N skipped`.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tools/common/base.sh
source tools/common/packages.sh
source tools/common/builds.sh
source tools/common/report.sh
source tools/common/buf.sh
source tools/common/ctest.sh
source tools/common/sources.sh

checks=("$@")
if [[ ${#checks[@]} == 0 ]]; then checks=(format tidy tree); fi
for check in "${checks[@]}"; do
  [[ "$check" == format || "$check" == tidy || "$check" == tree ]] ||
    usage_error "unknown check '$check'; there are: format, tidy, tree"
done
need "${BUILD_PACKAGES[@]}" "${LINT_PACKAGES[@]}" "${PYTHON_PACKAGES[@]}"
for check in "${checks[@]}"; do
  case "$check" in
    format) test_format ;;
    tidy) run_check clang-tidy check_tidy ;;
    tree)
      install_buf
      configure test || exit 1
      run_ctest lint build tree
      ;;
  esac
done
finish_report
