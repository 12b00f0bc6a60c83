#!/usr/bin/env bash
# Builds the image and trains on clusters of containers, with faults.
#
# usage: ./run compose [--start-engine] [-o json] [options...]
#
# Builds the images and runs clusters of containers with deploy/compose: what is in the image and
# how fast it starts; a training on three shard containers, of which one is stopped, one is killed
# and one is cut off meanwhile, beside the same training in one process; three jobs of two models at
# once, of which one is finished, one cancelled and one grown while the coordinator is replaced;
# short trainings with certificates on one machine and over four machines, each a network namespace
# with an engine of its own, where strangers knock and certificates are revoked. Takes about 20
# minutes on two cores. Uses the engine of DOCKER_HOST. Without one it is skipped (status 77).
#   --start-engine         starts a private dockerd instead (root; installs docker.io, debootstrap,
#                          iptables, prometheus; gets Debian 13's compose and buildx where the
#                          client has none); all that it makes goes away at the end
#   --engine-dir DIR       keeps the private engine's data in DIR, for the next time
#   --programs prebuilt    takes the programs of build/bin, which are built first, instead of
#                          compiling inside the image: an image as with --grpc debian
#   --grpc debian          builds and tries the image with Debian 12 and its gRPC, instead of the
#                          default one with a newer gRPC on Debian 13
#   --image NAME --example-image NAME   takes these images instead of building any
#   --only PARTS...        image, compose, jobs, tls, vms: only these
#   --epochs N             instead of the example's 14; at least 4
#   -o json                the last line of stdout is one JSON object: image_bytes, start_seconds,
#                          p_at_1, embedded_p_at_1, lost, …
# Needs `docker compose` version 2, which --start-engine gets. The figures: docs/operate/deployment.md.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tools/common/base.sh
source tools/common/test_python.sh
source tools/common/packages.sh
source tools/common/builds.sh
source tools/compose/docker_plugins.sh

need "${PYTHON_PACKAGES[@]}"
if given --start-engine "$@" && [[ -z "${DOCKER_HOST:-}" ]]; then
  unstarted need "${ENGINE_PACKAGES[@]}" prometheus
  want_docker_plugins
fi
if [[ " $* " == *" --programs prebuilt "* || " $* " == *" --programs=prebuilt "* ]]; then
  build_or_die release dslide dslide-shard dslide-coordinator
fi
need_test_python
exec "$TEST_PYTHON" tools/compose/compose_run.py "$@"
