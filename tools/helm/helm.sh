#!/usr/bin/env bash
# The helm that the tests of the chart render with, built from its Go module.
#
# usage: helm.sh [--find] FOLDER     prints FOLDER/VERSION/helm
#   builds it when it is missing: four minutes of two cores, once for each version
#   --find   only looks: status 1 when it is missing
# Needs Go and a proxy of Go modules, from which a newer Go comes where this one is too old.

set -euo pipefail

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

# Go before 1.21 cannot change to another one by itself: it gets that as a module and names its path.
newer_go() {
  local toolchain
  toolchain="golang.org/toolchain@v0.0.1-go$GO.$(go env GOOS)-$(go env GOARCH)"
  go mod download "$toolchain" </dev/null >&2 || return 1
  # A module's files are not executable.
  chmod -R +x "$GOMODCACHE/$toolchain/bin" "$GOMODCACHE/$toolchain/pkg/tool"
  printf '%s/bin' "$GOMODCACHE/$toolchain"
}

# Builds into the folder. A stopped build goes on from its modules and objects: 2 GB, which go away
# with the last step.
build() {
  local folder="$1" minor
  export GOPATH="$folder/go" GOMODCACHE="$folder/go/modules" GOCACHE="$folder/go/objects"
  export GOBIN="$folder/go/bin" GOTOOLCHAIN=auto CGO_ENABLED=0 GOFLAGS='-modcacherw -trimpath'
  minor="$(go version | sed -n -E 's/.* go1\.([0-9]+).*/\1/p')"
  # At the root, where no go.mod or go.work of others is found.
  cd /
  if ((${minor:-99} < 21)); then
    PATH="$(newer_go):$PATH" || return 1
    unset GOROOT
  fi
  go install -ldflags '-s -w' "$MODULE@$VERSION" </dev/null >&2 || return 1
  mv "$GOBIN/helm" "$folder/helm"
  rm -rf "$GOPATH"
}

folder="$1/$VERSION"
if [[ $find == yes ]]; then
  [[ -x "$folder/helm" ]] && printf '%s\n' "$folder/helm"
  exit
fi
mkdir -p "$folder"
folder="$(cd "$folder" && pwd)"
# Of runs at one time, one builds it.
exec 9>"$folder/lock"
flock 9
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
