#!/usr/bin/env bash
# Counts which lines of core and services the tests run.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tools/common/base.sh
source tools/common/packages.sh

need "${PYTHON_PACKAGES[@]}"
if ! given --help "$@"; then need "${BUILD_PACKAGES[@]}" "${SANITIZER_PACKAGES[@]}"; fi
exec "$PYTHON" tools/coverage/coverage.py "$@"
