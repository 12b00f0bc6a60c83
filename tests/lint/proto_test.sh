#!/usr/bin/env bash
# buf's STANDARD lint and format of the protos. Exits with 77 (skipped) where buf cannot be had.

set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../../protos"
buf="${DSLIDE_BUF:-$(command -v buf || true)}"
cached="${DSLIDE_CACHE_DIR:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/dslide}/buf/node_modules/.bin/buf"
if [[ -z "$buf" && -x "$cached" ]]; then buf="$cached"; fi
if [[ -z "$buf" ]]; then
  echo 'skipped: buf is not installed, and npm, which could install it, is not there either'
  exit 77
fi
"$buf" lint .
"$buf" format --diff --exit-code .
