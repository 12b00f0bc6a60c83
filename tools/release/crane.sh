#!/usr/bin/env bash
# crane, which speaks with registries of images, built from its Go module.
#
# usage: crane.sh [--find] FOLDER     prints FOLDER/VERSION/crane
#   builds it when it is missing: a minute of two cores, once for each version
#   --find   only looks: status 1 when it is missing
# Needs Go and a proxy of Go modules, from which a newer Go comes where this one is too old.

set -euo pipefail
# shellcheck source=tools/common/go_programs.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common/go_programs.sh"

# The last is what the version's go.mod asks for.
provide_go_program github.com/google/go-containerregistry/cmd/crane v0.20.7 1.25.0 "$@"
