#!/usr/bin/env bash
# cosign, with which users look at signatures, built from its Go module.
#
# usage: cosign.sh [--find] FOLDER     prints FOLDER/VERSION/cosign
#   builds it when it is missing: ten minutes of two cores, once for each version
#   --find   only looks: status 1 when it is missing
# Needs Go and a proxy of Go modules, from which a newer Go comes where this one is too old.

set -euo pipefail
# shellcheck source=tools/common/go_programs.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common/go_programs.sh"

# The last is what the version's go.mod asks for.
provide_go_program github.com/sigstore/cosign/v2/cmd/cosign v2.6.5 1.25.0 "$@"
