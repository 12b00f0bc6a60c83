# Programs that are built from Go modules, into FOLDER. Sourced.
# shellcheck shell=bash

# lock_folder FOLDER: of runs at one time, one builds there.
lock_folder() {
  exec 9>"$1/lock"
  flock 9
}

# Go before 1.21 cannot change to another one by itself: it gets that as a module and names its path.
newer_go() {
  local toolchain
  toolchain="golang.org/toolchain@v0.0.1-go$1.$(go env GOOS)-$(go env GOARCH)"
  go mod download "$toolchain" </dev/null >&2 || return 1
  # A module's files are not executable.
  chmod -R +x "$GOMODCACHE/$toolchain/bin" "$GOMODCACHE/$toolchain/pkg/tool"
  printf '%s/bin' "$GOMODCACHE/$toolchain"
}

# use_go FOLDER VERSION: sets what `go` needs to build with at least that version and without files
# elsewhere. A stopped build goes on from FOLDER/go, its modules and objects: gigabytes, which the
# caller removes with the last step.
use_go() {
  local minor newer
  export GOPATH="$1/go" GOMODCACHE="$1/go/modules" GOCACHE="$1/go/objects" GOBIN="$1/go/bin"
  export GOTOOLCHAIN=auto CGO_ENABLED=0 GOFLAGS='-modcacherw -trimpath' GOWORK=off
  minor="$(go version | sed -n -E 's/.* go1\.([0-9]+).*/\1/p')"
  if ((${minor:-99} < 21)); then
    newer="$(newer_go "$2")" || return 1
    PATH="$newer:$PATH"
    unset GOROOT
  fi
}

# build_module FOLDER OUTPUT FLAGS...: all programs that FOLDER/programs.go names, into OUTPUT.
build_module() {
  local name="${1##*/}" output="$2" packages
  cp -r "$1" "$GOPATH/$name"
  shift 2
  cd "$GOPATH/$name" || return 1
  echo "   building $name" >&2
  mapfile -t packages < <(sed -n 's/.*_ "\(.*\)"/\1/p' programs.go)
  go build -mod=readonly "$@" -o "$output/" "${packages[@]}" </dev/null >&2
}

# provide_go_program MODULE VERSION GO [--find] FOLDER: prints FOLDER/VERSION/NAME, the program that
# the module's path ends with. Builds it when it is missing; --find only looks.
provide_go_program() {
  local module="$1" version="$2" go="$3" name folder find=no
  name="${module##*/}"
  shift 3
  if [[ "${1:-}" == --find ]]; then
    find=yes
    shift
  fi
  if [[ $# != 1 || "$1" == -* ]]; then
    echo "usage: $name.sh [--find] FOLDER" >&2
    return 2
  fi
  folder="$1/$version"
  if [[ $find == yes ]]; then
    [[ -x "$folder/$name" ]] && printf '%s\n' "$folder/$name"
    return
  fi
  mkdir -p "$folder"
  folder="$(cd "$folder" && pwd)"
  lock_folder "$folder"
  if [[ ! -x "$folder/$name" ]]; then
    if ! command -v go >/dev/null; then
      echo "$name.sh: there is no Go here; install golang-go (any version)" >&2
      return 1
    fi
    echo "   building $name $version from its Go module into $folder: minutes, once" >&2
    if ! build_go_program "$module@$version" "$folder" "$go"; then
      echo "$name.sh: $(go version) could not build $module@$version (its messages are above)" >&2
      return 1
    fi
  fi
  printf '%s\n' "$folder/$name"
}

# In a process of its own: it changes the environment and the folder.
build_go_program() (
  use_go "$2" "$3" || return 1
  # At the root, where no go.mod of others is found.
  cd /
  go install -ldflags '-s -w' "$1" </dev/null >&2 || return 1
  mv "$GOBIN"/* "$2/"
  rm -rf "$GOPATH"
)
