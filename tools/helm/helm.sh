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

readonly VERSION=v4.3.1
readonly MODULE=helm.sh/helm/v4/cmd/helm
# What VERSION's go.mod asks for.
readonly GO=1.26.0

find=no
if [[ "${1:-}" == --find ]]; then
  find=yes
  shift
fi
if [[ $# != 1 || "$1" == -* ]]; then
  echo 'usage: helm.sh [--find] FOLDER' >&2
  exit 2
fi

# Builds into the folder.
build() {
  use_go "$1" "$GO" || return 1
  # At the root, where no go.mod of others is found.
  cd /
  go install -ldflags '-s -w' "$MODULE@$VERSION" </dev/null >&2 || return 1
  mv "$GOBIN/helm" "$1/helm"
  rm -rf "$GOPATH"
}

folder="$1/$VERSION"
if [[ $find == yes ]]; then
  [[ -x "$folder/helm" ]] && printf '%s\n' "$folder/helm"
  exit
fi
mkdir -p "$folder"
folder="$(cd "$folder" && pwd)"
lock_folder "$folder"
if [[ ! -x "$folder/helm" ]]; then
  if ! command -v go >/dev/null; then
    echo 'helm.sh: there is no Go here; install golang-go (any version)' >&2
    exit 1
  fi
  echo "   building helm $VERSION from its Go module into $folder: minutes, once" >&2
  if ! build "$folder"; then
    echo "helm.sh: $(go version) could not build $MODULE@$VERSION (its messages are above)" >&2
    exit 1
  fi
fi
printf '%s\n' "$folder/helm"
