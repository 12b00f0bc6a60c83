#!/usr/bin/env bash
# Builds the clients in other languages and tests them against a cluster.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tools/common/base.sh
source tools/common/packages.sh
source tools/common/builds.sh

need "${PYTHON_PACKAGES[@]}"
if ! given --help "$@"; then
  need "${CLIENT_PACKAGES[@]}"
  if ! given --bin-dir "$@"; then
    build_or_die test dslide dslide-shard dslide-coordinator dslide_client_vectors \
      dslide_client_increments
    set -- --bin-dir build/bin "$@"
  fi
  say 'Testing the clients in other languages'
fi
exec "$PYTHON" tools/clients/clients.py "$@"
