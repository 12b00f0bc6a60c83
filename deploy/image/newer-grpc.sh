#!/bin/sh
# Installs gRPC, with the protobuf and abseil that it wants, from Debian's experimental suite into a
# Debian 13 or newer: the only newer gRPC that Debian has. The versions are those of
# newer-grpc.versions; nothing else is taken from there or from unstable. Where the mirror has other
# versions by now, Debian's archive of old ones is asked. As root; the image's GRPC=experimental,
# `./run host --grpc experimental` and `./run release` call it.
#
# usage: newer-grpc.sh [MIRROR]
#        newer-grpc.sh --newest [MIRROR]   in a Debian that has none of it: installs what is newest,
#                                          and writes newer-grpc.versions
#
# environment:
#   NEWER_GRPC_ARCHIVE   instead of http://snapshot.debian.org/archive/debian
#   DESTDIR              of tests: what is before /etc and /var

set -eu

newest=no
if [ "${1:-}" = --newest ]; then
  newest=yes
  shift
fi
mirror="${1:-http://deb.debian.org/debian}"
versions="$(dirname "$0")/newer-grpc.versions"
old="${NEWER_GRPC_ARCHIVE:-http://snapshot.debian.org/archive/debian}"
sources="${DESTDIR:-}/etc/apt/sources.list.d/newer-grpc.list"
preferences="${DESTDIR:-}/etc/apt/preferences.d/newer-grpc"
lists="${DESTDIR:-}/var/lib/apt/lists"
wanted='libgrpc++-dev protobuf-compiler-grpc libprotobuf-dev protobuf-compiler libabsl-dev'
export DEBIAN_FRONTEND=noninteractive

fail() {
  echo "newer-grpc: $*" >&2
  exit 1
}

# Lines of package and version.
pinned() { grep -v '^archive ' "$versions" | grep -E '^[a-z0-9.+-]+ +[0-9]'; }

# "NAME VERSION" of each package that is not installed in its version; nothing when all are.
not_installed() {
  pinned | while read -r name version; do
    if [ "$(dpkg-query -W -f '${Version}' "$name" 2>/dev/null)" != "$version" ]; then
      echo "$name $version"
    fi
  done
}

# "NAME VERSION" of each package that the indexes do not have in its version.
not_offered() {
  pinned | while read -r name version; do
    apt-cache madison "$name" | awk -F ' *[|] *' -v wanted="$version" '
      $2 == wanted { found = 1 } END { exit !found }' || echo "$name $version"
  done
}

# use MIRROR: its unstable and experimental suites beside the release's own packages.
use() {
  trap forget EXIT
  options=
  # An archive of old indexes has outdated ones by design; they are signed all the same.
  case "$1" in "$old"/*) options='[check-valid-until=no] ' ;; esac
  printf "deb $options%s %s main\n" "$1" unstable "$1" experimental >"$sources"
  apt-get update -q || echo "newer-grpc: $1 cannot be read" >&2
}

# What else is read from the package index is to be of the release alone.
forget() {
  rm -f "$sources" "$lists"/*_dists_unstable_* "$lists"/*_dists_experimental_*
}

# pin PACKAGES PIN PRIORITY
pin() { printf 'Package: %s\nPin: %s\nPin-Priority: %s\n\n' "$1" "$2" "$3"; }

install() {
  # shellcheck disable=SC2086 # A list.
  apt-get "$@" install -y -q --no-install-recommends --allow-downgrades $wanted
}

install_pinned() {
  if [ -z "$(not_installed)" ]; then return; fi
  {
    pin '*' 'release a=unstable' -1
    pin '*' 'release a=experimental' -1
    pinned | while read -r name version; do pin "$name" "version $version" 1001; done
  } >"$preferences"
  archive="$old/$(sed -n 's/^archive //p' "$versions")"
  for place in "$mirror" "$archive"; do
    use "$place"
    missing="$(not_offered)"
    if [ -z "$missing" ]; then break; fi
    # shellcheck disable=SC2086 # On one line.
    echo "newer-grpc: $place does not have" $missing >&2
  done
  if [ -n "$missing" ]; then
    fail "neither $mirror nor $archive has the versions of $versions: give a mirror that has" \
      'them (the build argument GRPC_MIRROR), or have newer ones: docs/contribute/hosts.md'
  fi
  install -q
  missing="$(not_installed)"
  # shellcheck disable=SC2086 # On one line.
  if [ -n "$missing" ]; then fail 'not installed, though listed in' "$versions:" $missing; fi
}

install_newest() {
  {
    pin '*' 'release a=unstable' 100
    pin '*' 'release a=experimental' 50
    # experimental's protobuf and gRPC are built with unstable's abseil and re2.
    pin 'libabsl* libre2*' 'release a=unstable' 990
    pin 'libgrpc* libupb* protobuf-compiler* libproto* libutf8-range* libutf8-validity*' \
      'release a=experimental' 990
  } >"$preferences"
  use "$mirror"
  chosen="$(install -s |
    sed -nE 's/^Inst ([^ ]+) (\[[^]]*\] )?\(([^ ]+) .*Debian:(unstable|experimental).*/\1 \3/p')"
  case "$chosen" in *libgrpc++-dev*) ;; *)
    fail 'nothing newer to install: use a Debian that has none of it yet, and a mirror that has it' ;;
  esac
  install -q
  published="$(sed -n 's/^Date: //p' "$lists"/*_dists_experimental_InRelease)"
  {
    sed -n '/^#/p' "$versions"
    # What is published every six hours is in the archive of old versions a little later.
    echo "archive $(date -u -d "$published + 4 hours" +%Y%m%dT%H%M%SZ)"
    echo "$chosen" | sort
  } >"$versions.new"
  mv "$versions.new" "$versions"
}

# shellcheck source=/dev/null
. "${DESTDIR:-}/etc/os-release"
if [ "${VERSION_ID:-99}" -lt 13 ]; then
  fail "this is Debian $VERSION_ID: the newer gRPC is for Debian 13 or newer (DEBIAN_IMAGE);" \
    'GRPC=debian takes the gRPC of the release itself'
fi
if [ "$newest" = yes ]; then install_newest; else install_pinned; fi
