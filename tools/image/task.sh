#!/usr/bin/env bash
# Builds the container images.
#
# usage: ./run image [--prebuilt] [docker build options...]
#
# Builds the container images dslide and dslide-example of this version (the same with a data set to
# train on) from deploy/image/Dockerfile, with the engine that DOCKER_HOST or the docker client's
# context names. Compiling takes minutes; further builds find what has not changed.
#   --prebuilt    builds the programs here (Debian 12 only) and copies them instead of compiling
#                 inside: an image of Debian 12 with its gRPC
#
# environment:
#   DSLIDE_IMAGE, DSLIDE_EXAMPLE_IMAGE   the names
# The arguments of the Dockerfile and the facts of the image: docs/operate/deployment.md.
#
# example:
#   ./run image --network host --build-arg DEBIAN_IMAGE=registry.example.com/debian:trixie-slim

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tools/common/base.sh
source tools/common/packages.sh
source tools/common/builds.sh

version="$(<VERSION)"
readonly IMAGE="${DSLIDE_IMAGE:-dslide:$version}"
readonly EXAMPLE_IMAGE="${DSLIDE_EXAMPLE_IMAGE:-dslide-example:$version}"

command -v docker >/dev/null ||
  die 'image: no docker client here; install docker.io (Debian 12) or docker-cli'
arguments=()
if [[ "${1:-}" == --prebuilt ]]; then
  shift
  build_or_die release dslide dslide-shard dslide-coordinator
  # Of this machine's release and gRPC, as its programs are.
  arguments=(--build-arg PROGRAMS=prebuilt --build-arg GRPC=debian
    --build-arg DEBIAN_IMAGE=debian:bookworm-slim)
fi
revision="$(git rev-parse --short=12 HEAD 2>/dev/null || printf unknown)"
arguments+=(--build-arg "REVISION=$revision" "$@")
say "Building $IMAGE and $EXAMPLE_IMAGE"
export DOCKER_BUILDKIT=1
docker build -f deploy/image/Dockerfile --target dslide -t "$IMAGE" "${arguments[@]}" . >&2
docker build -f deploy/image/Dockerfile --target example -t "$EXAMPLE_IMAGE" "${arguments[@]}" . >&2
docker image inspect --format '{{index .RepoTags 0}} {{.Size}} bytes' "$IMAGE" "$EXAMPLE_IMAGE"
