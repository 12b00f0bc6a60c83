#!/usr/bin/env bash
# Installs what is missing and builds Release into build/bin/.
#
# usage: ./run build [targets...]
#
# Missing Debian packages are installed as root or with sudo. Without targets: build/bin/dslide,
# build/bin/dslide-shard, build/bin/dslide-coordinator and build/bin/dslide-bench. All flags are in
# CMakePresets.json: `cmake --preset release && cmake --build --preset release` does the same.
#
# environment:
#   DSLIDE_JOBS   compiler processes at once (default: one per processor)

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tools/common/base.sh
source tools/common/packages.sh
source tools/common/builds.sh

build_or_die release "$@"
if compgen -G 'build/bin/dslide*' >/dev/null; then
  note "done: $(cd build/bin && printf 'build/bin/%s ' dslide*)"
fi
