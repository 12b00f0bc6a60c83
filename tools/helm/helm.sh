#!/usr/bin/env bash
# The helm that the tests of the chart render with, built from its Go module.
#
# usage: helm.sh [--find] FOLDER     prints FOLDER/VERSION/helm
#   builds it when it is missing: four minutes of two cores, once for each version
#   --find   only looks: status 1 when it is missing
# Needs Go and a proxy of Go modules, from which a newer Go comes where this one is too old.

set -euo pipefail
# shellcheck source=tools/common/go_programs.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common/go_programs.sh"

# The last is what the version's go.mod asks for.
provide_go_program helm.sh/helm/v4/cmd/helm v4.3.1 1.26.0 "$@"
