# What every task begins with: places, messages, arguments. Sourced from the root of the tree.
# shellcheck shell=bash
# shellcheck disable=SC2034  # Used by what sources this.

ROOT="$PWD"
TASK="$(basename "$(dirname "$0")")"
JOBS="${DSLIDE_JOBS:-$(nproc)}"
readonly ROOT TASK JOBS
export DSLIDE_CACHE_DIR="${DSLIDE_CACHE_DIR:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/dslide}"
# The system's interpreter: others may lack the packages that apt installs.
readonly PYTHON=/usr/bin/python3

say() { printf '\n== %s\n' "$*" >&2; }
note() { printf '   %s\n' "$*" >&2; }
die() {
  printf 'run: %s\n' "$*" >&2
  exit 1
}
usage_error() {
  printf 'run: %s\n' "$*" >&2
  exit 2
}

# given FLAG ARGUMENTS...: true when FLAG or FLAG=value is among the arguments.
given() {
  local flag="$1" argument
  shift
  for argument in "$@"; do
    if [[ "$argument" == "$flag" || "$argument" == "$flag="* ]]; then return 0; fi
  done
  return 1
}

# Takes `-o json` in each of its spellings out of the arguments: sets JSON, yes or no, and ARGUMENTS
# to the others.
take_output() {
  JSON=no ARGUMENTS=()
  while [[ $# -gt 0 ]]; do
    case "$1" in
      -o | --output)
        [[ "${2:-}" == json ]] || usage_error "$TASK: $1 takes 'json', not '${2:-}'"
        JSON=yes
        shift
        ;;
      -ojson | -o=json | --output=json) JSON=yes ;;
      *) ARGUMENTS+=("$1") ;;
    esac
    shift
  done
}
