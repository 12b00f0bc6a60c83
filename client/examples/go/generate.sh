#!/bin/sh
# Makes gen/dslidev1 of the protos, with the plugins whose versions go.mod locks.
set -eu
cd "$(dirname "$0")"

package=dslide.dev/example/gen/dslidev1
set --
for proto in common model coordinator shard; do
  set -- "$@" "--go_opt=Mdslide/v1/$proto.proto=$package" \
    "--go-grpc_opt=Mdslide/v1/$proto.proto=$package" "dslide/v1/$proto.proto"
done
exec protoc --proto_path=../../../protos \
  --plugin=protoc-gen-go="$(go tool -n protoc-gen-go)" \
  --plugin=protoc-gen-go-grpc="$(go tool -n protoc-gen-go-grpc)" \
  --go_out=. --go_opt=module=dslide.dev/example \
  --go-grpc_out=. --go-grpc_opt=module=dslide.dev/example "$@"
