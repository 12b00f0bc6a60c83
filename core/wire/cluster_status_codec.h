// What a coordinator says of its cluster <-> protobuf.

#pragma once

#include "core/protocol/cluster_status.h"
#include "dslide/v1/coordinator.pb.h"

namespace dslide::wire {

void EncodeJobStatus(const JobStatus& job, v1::JobStatus* out);
JobStatus DecodeJobStatus(const v1::JobStatus& job);

// All of an operation but what came of it.
void EncodeOperationStatus(const OperationStatus& status, v1::Operation* out);
OperationStatus DecodeOperationStatus(const v1::Operation& operation);

// Client ids that are none are left out.
void EncodeClusterCheckpoint(const ClusterCheckpoint& checkpoint, v1::ClusterCheckpoint* out);
ClusterCheckpoint DecodeClusterCheckpoint(const v1::ClusterCheckpoint& in);

void EncodeClusterStatus(const ClusterStatus& status, v1::GetClusterStatusResponse* out);
ClusterStatus DecodeClusterStatus(const v1::GetClusterStatusResponse& response);

}  // namespace dslide::wire
