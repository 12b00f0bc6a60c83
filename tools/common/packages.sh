# Installs Debian packages that are missing. Sourced after base.sh.
# shellcheck shell=bash

source tools/common/package_lists.sh

# Prints the packages of the list that dpkg does not hold.
missing_packages() {
  local installed package
  installed=" $(dpkg-query -W -f '${db:Status-Status}=${Package} ' "$@" 2>/dev/null || true) "
  for package in "$@"; do
    [[ "$installed" == *" installed=$package "* ]] || printf '%s\n' "$package"
  done
}

# Sets ROOT_COMMAND to what makes a command run as root; fails when nothing does.
ROOT_COMMAND=()
find_root_command() {
  ROOT_COMMAND=()
  if [[ "$(id -u)" == 0 ]]; then return 0; fi
  if ! command -v sudo >/dev/null; then return 1; fi
  if [[ -t 0 ]]; then
    ROOT_COMMAND=(sudo)
  else
    sudo -n true 2>/dev/null || return 1
    ROOT_COMMAND=(sudo -n)
  fi
}

have_apt_index() { compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null; }

apt_get() {
  "${ROOT_COMMAND[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y \
    -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 -o Dpkg::Use-Pty=0 "$@" </dev/null >&2
}

# need PACKAGES...: installs those that are missing.
need() {
  if ! command -v dpkg-query >/dev/null; then
    note "no dpkg here: install the equivalents of these yourself when the build misses one: $*"
    return 0
  fi
  local missing=()
  mapfile -t missing < <(missing_packages "$@")
  if [[ ${#missing[@]} == 0 ]]; then return 0; fi
  if ! find_root_command; then
    die "these packages are missing and this user may not install them; run as root:
  apt-get update && apt-get install --no-install-recommends ${missing[*]}"
  fi
  say "Installing ${#missing[@]} packages: ${missing[*]}"
  have_apt_index || apt_get update
  # An old index names versions that the mirror no longer has: refresh it once, then try again.
  if ! apt_get install --no-install-recommends "${missing[@]}"; then
    note 'the installation failed; refreshing the package index and trying once more'
    apt_get update
    apt_get install --no-install-recommends "${missing[@]}" ||
      die "apt-get could not install: ${missing[*]} (its messages are above)"
  fi
}

# want PACKAGES...: installs those that are missing, or says that it goes on without them.
want() { (need "$@") || note "going on without $*: what needs them is skipped"; }

# unstarted COMMAND...: runs what installs packages. Debian starts a service that is installed
# unless policy-rc.d says otherwise.
unstarted() {
  local policy=/usr/sbin/policy-rc.d ours=no status=0
  if [[ ! -e "$policy" ]] && command -v dpkg-query >/dev/null && find_root_command; then
    ours=yes
    printf '#!/bin/sh\nexit 101\n' | "${ROOT_COMMAND[@]}" tee "$policy" >/dev/null
    "${ROOT_COMMAND[@]}" chmod 755 "$policy"
  fi
  ("$@") || status=$?
  if [[ $ours == yes ]]; then "${ROOT_COMMAND[@]}" rm -f "$policy"; fi
  return "$status"
}

# Fetches apt's index, of which a data set is made, where there is none yet.
want_apt_index() {
  if have_apt_index || ! command -v apt-get >/dev/null || ! find_root_command; then return 0; fi
  say 'No apt package index here yet: fetching it'
  apt_get update || note 'apt-get update failed'
}
