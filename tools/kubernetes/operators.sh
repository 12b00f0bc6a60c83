#!/usr/bin/env bash
# The operators that users have in their clusters, built from their Go modules, and their manifests.
#
# usage: operators.sh [--find] FOLDER    prints the folder that holds them
#   builds them when they are missing: some twenty minutes of two cores, 5 GB while they are built,
#   500 MB kept, once for each state of operator-programs/
#   --find   only looks: status 1 when they are missing
# In it: bin/ with the programs, charts/ of cert-manager and Kueue, prometheus-operator.yaml.
# Apart from programs.sh, as what only the chart needs does without them.

set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
# shellcheck source=tools/common/go_programs.sh
source "$here/../common/go_programs.sh"

# What their go.mod files ask for.
readonly GO=1.26.0
readonly MODULES=(kueue cert-manager prometheus-operator prometheus)

find=no
if [[ "${1:-}" == --find ]]; then
  find=yes
  shift
fi
if [[ $# != 1 || "$1" == -* ]]; then
  echo 'usage: operators.sh [--find] FOLDER' >&2
  exit 2
fi

# source_of NAME MODULE: where the files of a module lie that operator-programs/NAME uses.
source_of() {
  (cd "$GOPATH/$1" && go list -mod=readonly -m -f '{{.Dir}}' "$2" </dev/null)
}

# The modules are read only.
copy() {
  cp -r "$1" "$2" && chmod -R u+w "$2"
}

build() {
  local module
  use_go "$folder" "$GO" || return 1
  rm -rf "${folder:?}/new" "${MODULES[@]/#/$GOPATH/}"
  mkdir -p "$folder/new/bin" "$folder/new/charts" "$GOPATH"
  for module in "${MODULES[@]}"; do
    build_module "$here/operator-programs/$module" "$folder/new/bin" -ldflags '-s -w' || return 1
  done
  copy "$(source_of kueue sigs.k8s.io/kueue)/charts/kueue" "$folder/new/charts/kueue" || return 1
  copy "$(source_of cert-manager github.com/cert-manager/cert-manager)/deploy/charts/cert-manager" \
    "$folder/new/charts/cert-manager" || return 1
  module=github.com/prometheus-operator/prometheus-operator
  copy "$(source_of prometheus-operator "$module")/bundle.yaml" \
    "$folder/new/prometheus-operator.yaml" || return 1
  mv "$folder/new" "$folder/operators"
}

key="$(find "$here/operator-programs" -type f | LC_ALL=C sort | xargs cat | sha256sum | cut -c1-16)"
folder="$1/operators-$key"
if [[ $find == yes ]]; then
  [[ -d "$folder/operators" ]] && printf '%s\n' "$folder/operators"
  exit
fi
mkdir -p "$folder"
folder="$(cd "$folder" && pwd)"
lock_folder "$folder"
if [[ ! -d "$folder/operators" ]]; then
  if ! command -v go >/dev/null; then
    echo 'operators.sh: there is no Go here; install golang-go (any version)' >&2
    exit 1
  fi
  echo "   building cert-manager, Kueue and the Prometheus operator into $folder: minutes, once" >&2
  if ! build; then
    echo "operators.sh: $(go version) could not build them (its messages are above)" >&2
    exit 1
  fi
fi
# After the programs are in their place: modules of which a part is removed build nothing any more.
rm -rf "$folder/go"
printf '%s\n' "$folder/operators"
