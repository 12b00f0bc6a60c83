#!/usr/bin/env bash
# Lists what is tested; compares the list with another revision's.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tools/common/base.sh
source tools/common/packages.sh

need "${PYTHON_PACKAGES[@]}"
exec "$PYTHON" tools/behaviours/behaviours.py "$@"
