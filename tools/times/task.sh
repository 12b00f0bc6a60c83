#!/usr/bin/env bash
# Shows where the time of the last check went, and what has grown.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tools/common/base.sh
source tools/common/packages.sh

need "${PYTHON_PACKAGES[@]}"
exec "$PYTHON" tools/times/times.py "$@"
