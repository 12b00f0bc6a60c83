#!/usr/bin/env bash
# buf's STANDARD lint and format of the protos, and that nothing breaks which clients of the frozen
# image (protos/frozen.binpb) rely on. --update makes that image anew: at a release, or where
# docs/understand/wire.md allows to break. Exits with 77 (skipped) where buf cannot be had.

set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../../protos"
buf="${DSLIDE_BUF:-$(command -v buf || true)}"
cached="${DSLIDE_CACHE_DIR:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/dslide}/buf/node_modules/.bin/buf"
if [[ -z "$buf" && -x "$cached" ]]; then buf="$cached"; fi
if [[ -z "$buf" ]]; then
  echo 'skipped: buf is not installed, and npm, which could install it, is not there either'
  exit 77
fi
if [[ "${1:-}" == --update ]]; then
  exec "$buf" build . --exclude-source-info -o frozen.binpb
fi
"$buf" lint .
"$buf" format --diff --exit-code .
if ! "$buf" breaking . --against frozen.binpb; then
  echo 'This breaks clients that were made before. What may be added, and when something may break:' >&2
  echo 'docs/understand/wire.md#what-may-be-added' >&2
  exit 1
fi
