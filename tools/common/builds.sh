# Builds by the presets of CMakePresets.json, which has all flags. Sourced after packages.sh.
# shellcheck shell=bash

# folder_of PRESET: the build folder of a configure preset.
folder_of() {
  case "$1" in
    release | test) printf 'build' ;;
    *) printf 'build-%s' "$1" ;;
  esac
}

# configure PRESET
configure() {
  local log
  log="$(folder_of "$1")/configure.log"
  mkdir -p "$(dirname "$log")"
  if ! cmake --preset "$1" >"$log" 2>&1; then
    cat "$log" >&2
    note "cmake could not configure $1; its messages are above"
    return 1
  fi
}

# Every tenth of ninja's steps, and all that is not a step or tells of trouble, as it comes: awk as
# Debian has it would keep lines back until it has 4 KiB of them.
some_lines() {
  local line steps=0
  while IFS= read -r line; do
    if [[ "$line" != '['* || "$line" =~ FAILED|warning|error ]] || ((steps++ % 10 == 0)); then
      printf '%s\n' "$line"
    fi
  done
}

# compile PRESET [TARGETS...]: builds the targets, or those of the build preset, with ninja's
# one-line progress on a terminal and a line per ten steps elsewhere.
compile() {
  local command=(cmake --build --preset "$1" -j "$JOBS") status=0
  shift
  if [[ $# -gt 0 ]]; then command+=(--target "$@"); fi
  if [[ -t 2 ]]; then
    "${command[@]}" >&2 || status=$?
  else
    NINJA_STATUS='[%f/%t %es] ' "${command[@]}" 2>&1 | some_lines >&2 || status=$?
  fi
  return "$status"
}

# build_or_die PRESET [TARGETS...]
build_or_die() {
  need "${BUILD_PACKAGES[@]}"
  say "Building ($1, $JOBS jobs) into $(folder_of "$1")/"
  configure "$1" || exit 1
  compile "$@" || die 'the build failed; the compiler messages are above'
}
