// The messages of dslide.v1, as they are generated from the protos.

export * from "./gen/dslide/v1/common_pb.js";
export * from "./gen/dslide/v1/coordinator_pb.js";
export * from "./gen/dslide/v1/model_pb.js";
export * from "./gen/dslide/v1/predict_pb.js";
export * from "./gen/dslide/v1/shard_pb.js";
