#!/bin/sh
# Installs gRPC, with the protobuf and abseil that it wants, from Debian's experimental suite into a
# Debian 13 or newer: the only newer gRPC that Debian has. Nothing else is taken from there or from
# unstable, unless these packages demand it. As root; the image's GRPC=experimental and
# `./run host --grpc experimental` call it.
#
# usage: newer-grpc.sh [MIRROR]

set -eu

mirror="${1:-http://deb.debian.org/debian}"

cat >/etc/apt/sources.list.d/newer-grpc.list <<TEXT
deb $mirror unstable main
deb $mirror experimental main
TEXT
# experimental's protobuf and gRPC are built with unstable's abseil and re2.
cat >/etc/apt/preferences.d/newer-grpc <<'TEXT'
Package: *
Pin: release a=unstable
Pin-Priority: 100

Package: *
Pin: release a=experimental
Pin-Priority: 50

Package: libabsl* libre2* libutf8-range* libutf8-validity*
Pin: release a=unstable
Pin-Priority: 990

Package: libgrpc* libupb* protobuf-compiler* libproto* libutf8-range* libutf8-validity*
Pin: release a=experimental
Pin-Priority: 990
TEXT
apt-get update -q
DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
  libgrpc++-dev protobuf-compiler-grpc libprotobuf-dev protobuf-compiler libabsl-dev
# What else is read from the package index is to be of the release alone.
rm -f /etc/apt/sources.list.d/newer-grpc.list
rm -f /var/lib/apt/lists/*_dists_unstable_* /var/lib/apt/lists/*_dists_experimental_*
case "$(dpkg-query -W -f '${Version}' libgrpc++-dev)" in
  1.51.*)
    echo 'newer-grpc: experimental has no gRPC newer than 1.51 for this release; use a newer release' >&2
    exit 1
    ;;
esac
