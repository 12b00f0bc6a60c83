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
  cd "$GOPATH/$name"
  echo "   building $name" >&2
  mapfile -t packages < <(sed -n 's/.*_ "\(.*\)"/\1/p' programs.go)
  go build -mod=readonly "$@" -o "$output/" "${packages[@]}" </dev/null >&2
}
