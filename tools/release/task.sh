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
#   --files DIR     where the files go, which is emptied (default: build/release/VERSION)
#   --grpc debian   of the programs and the gRPC of this machine's Debian release. Without it the
#                   programs are built, as for the image of the Dockerfile, with a newer gRPC in a
#                   root of Debian 13: needs root, debootstrap, 6 GB in the cache folder, and the
#                   first time half an hour. A rehearsal is of this machine's unless --grpc
#                   experimental is given
#   --bin-dir DIR   with --grpc debian, and implies it: the programs there instead of building
#   --no-build      skipped (status 77) where helm or crane would have to be built first; without
#                   cosign, which a rehearsal asks besides, where it would have to be
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
task=publish bin_dir='' grpc='' arguments=() find=()
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
    --registry | --key | --public-key | --version | --files | --also | --bin-dir | --grpc)
      [[ $# -ge 2 ]] || usage_error "release: $1 needs a value"
      case "$1" in
        --bin-dir) bin_dir="$2" ;;
        --grpc) grpc="$2" ;;
        *) arguments+=("$1" "$2") ;;
      esac
      shift
      ;;
    *) usage_error "release: unknown argument '$1'; see ./run release --help" ;;
  esac
  shift
done
if [[ $JSON == yes ]]; then arguments+=(-o json); fi
if [[ -z "$grpc" ]]; then
  grpc=experimental
  if [[ -n "$bin_dir" || $task == rehearse ]]; then grpc=debian; fi
fi
case "$grpc" in
  debian) ;;
  experimental) [[ -z "$bin_dir" ]] ||
    usage_error 'release: --bin-dir has programs of this machine, not those of --grpc experimental' ;;
  *) usage_error "release: --grpc is '$grpc': want experimental or debian" ;;
esac

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
  if [[ $task == rehearse ]] && cosign="$(tools/release/cosign.sh "${find[@]}" "$DSLIDE_CACHE_DIR/cosign")"; then
    arguments+=(--cosign "$cosign")
  fi
fi
if [[ $task == publish || $task == rehearse ]]; then
  need binutils
  want_apt_index
  if [[ $grpc == experimental ]]; then
    # Nobody else can enter a root; the program says so.
    if [[ "$(id -u)" == 0 ]]; then need "${HOST_PACKAGES[@]}"; fi
  else
    if [[ -z "$bin_dir" ]]; then build_or_die release dslide dslide-shard dslide-coordinator; fi
    arguments+=(--bin-dir "${bin_dir:-build/bin}")
  fi
  arguments+=(--grpc "$grpc")
  say "Release: $task"
fi
exec "$PYTHON" tools/release/release_run.py "$task" "${arguments[@]}"
