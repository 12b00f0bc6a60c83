#!/usr/bin/env bash
# Rewrites the sources in the project's format.
#
# usage: ./run format
#
# Rewrites the project's C++ files (and, when they are at hand, its protos by buf and its Python
# package by ruff).

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tools/common/base.sh
source tools/common/packages.sh
source tools/common/buf.sh
source tools/common/sources.sh

need "${FORMAT_PACKAGES[@]}"
cpp_files | xargs -r clang-format -i
if find_buf; then "$BUF" format -w protos; fi
for ruff in "$DSLIDE_CACHE_DIR"/clients/python-*/bin/ruff; do
  if [[ -x "$ruff" ]]; then "$ruff" format --no-cache client/python; fi
done
note 'formatted'
