#!/usr/bin/env bash
# The operators that users have in their clusters, built from their Go modules, and their manifests.
#
# usage: operators.sh [--find] FOLDER    prints the folder that holds them
#   builds those that are missing: some twenty minutes of two cores for all, 5 GB while they are
#   built, 500 MB kept; each once for each state of operator-programs/NAME
#   --find   builds nothing: status 1 when one is missing
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

# copy NAME MODULE PATH TO: a file or folder of a module that operator-programs/NAME uses. Modules
# are read only.
copy() {
  local source
  source="$(cd "$GOPATH/$1" && go list -mod=readonly -m -f '{{.Dir}}' "$2" </dev/null)" || return 1
  mkdir -p "$(dirname "$4")" && cp -r "$source/$3" "$4" && chmod -R u+w "$4"
}

# copy_manifests NAME OUTPUT: with what users install it.
copy_manifests() {
  case "$1" in
    kueue) copy "$1" sigs.k8s.io/kueue charts/kueue "$2/charts/kueue" ;;
    cert-manager)
      copy "$1" github.com/cert-manager/cert-manager deploy/charts/cert-manager \
        "$2/charts/cert-manager"
      ;;
    prometheus-operator)
      copy "$1" github.com/prometheus-operator/prometheus-operator bundle.yaml \
        "$2/prometheus-operator.yaml"
      ;;
  esac
}

build() {
  local name new="$folder/new"
  use_go "$folder" "$GO" || return 1
  mkdir -p "$GOPATH"
  for name in "$@"; do
    rm -rf "${new:?}" "${GOPATH:?}/$name"
    mkdir -p "$new/bin"
    build_module "$here/operator-programs/$name" "$new/bin" -ldflags '-s -w' || return 1
    copy_manifests "$name" "$new" || return 1
    mv "$new" "$folder/$name-$(key "$name")"
  done
}

# key NAME...: another one when a file of theirs is another one.
key() {
  (cd "$here/operator-programs" && find "$@" -type f | LC_ALL=C sort | xargs sha256sum) |
    sha256sum | cut -c1-16
}

# All in one folder, without a copy of their bytes.
put_together() {
  local name
  rm -rf "${folder:?}/new"
  mkdir "$folder/new"
  for name in "${MODULES[@]}"; do
    cp -rl "$folder/$name-$(key "$name")/." "$folder/new" || return 1
  done
  mv "$folder/new" "$all"
}

[[ $find == no ]] && mkdir -p "$1/operators"
[[ -d "$1/operators" ]] || exit 1
folder="$(cd "$1/operators" && pwd)"
all="$folder/all-$(key "${MODULES[@]}")"
lock_folder "$folder"
missing=()
for module in "${MODULES[@]}"; do
  [[ -d "$folder/$module-$(key "$module")" ]] || missing+=("$module")
done
if [[ ${#missing[@]} != 0 ]]; then
  [[ $find == no ]] || exit 1
  if ! command -v go >/dev/null; then
    echo 'operators.sh: there is no Go here; install golang-go (any version)' >&2
    exit 1
  fi
  echo "   building ${missing[*]} into $folder: minutes, once" >&2
  if ! (build "${missing[@]}"); then
    echo "operators.sh: $(go version) could not build them (its messages are above)" >&2
    exit 1
  fi
fi
# After the programs are in their place: modules of which a part is removed build nothing any more.
rm -rf "$folder/go"
[[ -d "$all" ]] || put_together
printf '%s\n' "$all"
