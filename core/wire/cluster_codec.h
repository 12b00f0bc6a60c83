// The map of a cluster, jobs and their work <-> protobuf.

#pragma once

#include "absl/status/statusor.h"
#include "core/protocol/cluster_map.h"
#include "core/protocol/job_work.h"
#include "dslide/v1/coordinator.pb.h"

namespace dslide::wire {

void EncodeShardInfo(const ShardInfo& shard, v1::ShardInfo* out);
ShardInfo DecodeShardInfo(const v1::ShardInfo& info);

void EncodeClusterMap(const ClusterMap& map, v1::GetClusterMapResponse* out);
// Errors: Internal when a shard is missing or slots are not of these shards.
absl::StatusOr<ClusterMap> DecodeClusterMap(const v1::GetClusterMapResponse& response);

void EncodeJobSpec(const JobSpec& spec, v1::JobSpec* out);
// Absent fields take their defaults. Errors: InvalidArgument BAD_ENUM naming the field.
absl::StatusOr<JobSpec> DecodeJobSpec(const v1::JobSpec& spec);

void EncodeWorkRequest(const WorkRequest& request, v1::AcquireWorkRequest* out);
// Errors: those of DecodeClientId.
absl::StatusOr<WorkRequest> DecodeWorkRequest(const v1::AcquireWorkRequest& request);

// Of no work (monostate) nothing is set.
void EncodeWork(const Work& work, v1::AcquireWorkResponse* out);
// Of an answer without work a pause of none.
Work DecodeWork(const v1::AcquireWorkResponse& response);

}  // namespace dslide::wire
