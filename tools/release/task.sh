#!/usr/bin/env bash
# Makes a release and brings it, signed, to a registry.
#
# usage: ./run release --registry HOST/PREFIX --key FILE [--also DIR]...
#        ./run release --dry-run [--registry HOST/PREFIX] [--also DIR]...
#        ./run release verify --registry HOST/PREFIX --public-key FILE [--version V]
#        ./run release key --key FILE
#        ./run release rehearse [--no-build]
#
# Builds this commit, and of it the images dslide and dslide-example (without a container engine),
# the Helm chart, which names them by digest, the packages of the Python and Node clients, a bill of
# materials, the provenance, and what known vulnerabilities mean. Pushes images and chart, signs
# them, and verifies what the registry has then. A version that is there with another content is
# refused; a release that was cut off goes on. Logins are those of `crane auth login`.
#   --dry-run    makes all files, pushes and signs nothing
#   verify       looks at a release in a registry, with the public key alone
#   key          makes a private key, and the public one beside it
#   rehearse     a release into a registry on this machine, its installation, and attempts to pass
#                off something else for it, all of which have to be refused
#   --also DIR   images of another architecture: the folder `images` that a dry run of this commit
#                left on such a machine
#   --output DIR    where the files go, which is emptied (default: build/release/VERSION)
#   --bin-dir DIR   the programs there instead of building; of this machine's Debian release
#   --no-build      skipped (status 77) where helm or crane would have to be built first
#   -o json         the last line of stdout is one JSON object
#
# environment:
#   DSLIDE_RELEASE_KEY_PASSWORD   of the private key
# Everything else: docs/contribute/releasing.md.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tools/common/base.sh
source tools/common/packages.sh
source tools/common/builds.sh
source tools/chart/rendering.sh

readonly SKIPPED=77

take_output "$@"
set -- "${ARGUMENTS[@]}"
task=publish bin_dir='' arguments=() find=()
case "${1:-}" in
  verify | rehearse | key)
    task="$1"
    shift
    ;;
esac
while [[ $# -gt 0 ]]; do
  case "$1" in
    --no-build) find=(--find) ;;
    --dry-run) arguments+=("$1") ;;
    --registry | --key | --public-key | --version | --output | --also | --bin-dir)
      [[ $# -ge 2 ]] || usage_error "release: $1 needs a value"
      if [[ "$1" == --bin-dir ]]; then bin_dir="$2"; else arguments+=("$1" "$2"); fi
      shift
      ;;
    *) usage_error "release: unknown argument '$1'; see ./run release --help" ;;
  esac
  shift
done
if [[ $JSON == yes ]]; then arguments+=(-o json); fi

# provide NAME COMMAND...: prints the path of a program; says why there is none.
provide() {
  local name="$1" path
  shift
  if path="$("$@" "${find[@]}" "$DSLIDE_CACHE_DIR/$name")"; then
    printf '%s\n' "$path"
  elif [[ ${#find[@]} == 1 ]]; then
    note "SKIPPED: release: no $name; ./run release rehearse builds it"
    return "$SKIPPED"
  else
    die "release: $name is missing (its messages are above)"
  fi
}

need "${PYTHON_PACKAGES[@]}" openssl
if [[ $task != key ]]; then
  if [[ ${#find[@]} == 0 ]]; then need_go; fi
  helm="$(provide helm tools/helm/helm.sh)" || exit
  crane="$(provide crane tools/release/crane.sh)" || exit
  arguments+=(--helm "$helm" --crane "$crane")
fi
if [[ $task == publish || $task == rehearse ]]; then
  need binutils
  want_apt_index
  if [[ -z "$bin_dir" ]]; then
    build_or_die release dslide dslide-shard dslide-coordinator
    bin_dir=build/bin
  fi
  arguments+=(--bin-dir "$bin_dir")
  say "Release: $task"
fi
exec "$PYTHON" tools/release/release_run.py "$task" "${arguments[@]}"
