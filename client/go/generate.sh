#!/bin/sh
# Makes gen/ of the protos, with the plugins whose versions go.mod locks.
#
#   ./generate.sh            writes it
#   ./generate.sh --check    compares it, and fails where it is not what the protos say
set -eu
cd "$(dirname "$0")"

into=.
if [ "${1:-}" = --check ]; then
  into=$(mktemp -d)
  trap 'rm -rf "$into"' EXIT
fi
protoc --proto_path=../../protos \
  --plugin=protoc-gen-go="$(go tool -n protoc-gen-go)" \
  --plugin=protoc-gen-go-grpc="$(go tool -n protoc-gen-go-grpc)" \
  --go_out="$into" --go_opt=module=dslide.dev \
  --go-grpc_out="$into" --go-grpc_opt=module=dslide.dev \
  dslide/v1/common.proto dslide/v1/model.proto dslide/v1/coordinator.proto \
  dslide/v1/shard.proto dslide/v1/predict.proto
if [ "$into" != . ]; then
  # The compiler's own version stands in comments: those of another one are no difference.
  diff -r -I '^//.*protoc  *v' "$into/gen" gen ||
    { echo 'gen/ is not what the protos say: run client/go/generate.sh' >&2; exit 1; }
fi
