#!/usr/bin/env bash
# The programs of a Kubernetes, built from their Go modules; go.mod and go.sum hold their versions.
#
# usage: programs.sh [--find] FOLDER     prints the folder that holds them
#   builds them when they are missing: ten minutes of two cores, 4 GB while they are built, 600 MB
#   kept, once for each state of programs/
#   --find   only looks: status 1 when they are missing
# Needs Go and a proxy of Go modules, from which a newer Go comes where this one is too old.

set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
# shellcheck source=tools/common/go_programs.sh
source "$here/../common/go_programs.sh"

# What their go.mod files ask for.
readonly GO=1.26.0

find=no
if [[ "${1:-}" == --find ]]; then
  find=yes
  shift
fi
if [[ $# != 1 || "$1" == -* ]]; then
  echo 'usage: programs.sh [--find] FOLDER' >&2
  exit 2
fi

# The API server tells its version to clients, which refuse one without.
kubernetes_version() { sed -n -E 's/^\s*k8s.io\/kubernetes v(\S+).*/\1/p' "$here/programs/kubernetes/go.mod"; }

build() {
  local version name=k8s.io/component-base/version
  version="$(kubernetes_version)"
  use_go "$folder" "$GO" || return 1
  rm -rf "${folder:?}/new" "$GOPATH"/{kubernetes,containerd,coredns}
  mkdir -p "$folder/new" "$GOPATH"
  build_module "$here/programs/kubernetes" "$folder/new" \
    -ldflags "-s -w -X $name.gitVersion=v$version -X $name.gitMajor=${version%%.*} \
      -X $name.gitMinor=$(cut -d. -f2 <<<"$version")" || return 1
  mv "$folder/new/server" "$folder/new/etcd"
  build_module "$here/programs/containerd" "$folder/new" -ldflags '-s -w' \
    -tags 'no_btrfs no_devmapper no_zfs' || return 1
  build_module "$here/programs/coredns" "$folder/new" -ldflags '-s -w' || return 1
  mv "$folder/new" "$folder/bin"
}

key="$(cat "$here"/programs/*/{go.mod,go.sum,programs.go} | sha256sum | cut -c1-16)"
folder="$1/$(kubernetes_version)-$key"
if [[ $find == yes ]]; then
  [[ -d "$folder/bin" ]] && printf '%s\n' "$folder/bin"
  exit
fi
mkdir -p "$folder"
folder="$(cd "$folder" && pwd)"
lock_folder "$folder"
if [[ ! -d "$folder/bin" ]]; then
  if ! command -v go >/dev/null; then
    echo 'programs.sh: there is no Go here; install golang-go (any version)' >&2
    exit 1
  fi
  echo "   building Kubernetes $(kubernetes_version) from Go modules into $folder: minutes, once" >&2
  if ! build; then
    echo "programs.sh: $(go version) could not build it (its messages are above)" >&2
    exit 1
  fi
fi
# After the programs are in their place: modules of which a part is removed build nothing any more.
rm -rf "$folder/go"
printf '%s\n' "$folder/bin"
