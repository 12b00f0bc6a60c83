#!/usr/bin/env bash
# Builds and tests on another Debian release.
#
# usage: ./run host [--suite trixie] [--grpc experimental] [--root DIR] [-o json]
#                   [-- ./run test arguments...]
#
# Builds the last commit on another Debian release and runs the quick tests there: in a root file
# system that debootstrap makes, with this machine's kernel. Needs root and about 6 GB; the first
# time takes as long as a build without a compiler cache. Where roots cannot be made or entered it
# is skipped (status 77).
#   --suite NAME         the release; default: trixie (Debian 13)
#   --grpc experimental  with the gRPC, protobuf and abseil of Debian's experimental suite, years
#                        newer than the 1.51.1 of every release (Debian 13 and newer)
#   --root DIR           the root; default: hosts/ in the cache folder, where it stays for the next
#                        time
#   --mirror URL         where its packages come from; default: http://deb.debian.org/debian
#   -o json              the last line of stdout is one JSON object: held, versions, passed, failed,
#                        …
# What was found: docs/contribute/hosts.md.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tools/common/base.sh
source tools/common/packages.sh

need "${PYTHON_PACKAGES[@]}"
# Nobody else can enter a root; the program says so.
if [[ "$(id -u)" == 0 ]]; then need "${HOST_PACKAGES[@]}"; fi
exec "$PYTHON" tools/host/host_run.py "$@"
