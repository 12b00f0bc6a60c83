// Operations and cluster checkpoints as CoordinatorService answers them.

#pragma once

#include "dslide/v1/coordinator.pb.h"
#include "services/coordinator/checkpoints/manifest.h"
#include "services/coordinator/operations/operation.h"

namespace dslide::coordinator {

void EncodeCheckpoint(const Manifest& manifest, v1::ClusterCheckpoint* out);
void EncodeOperation(const OperationView& view, v1::Operation* out);

}  // namespace dslide::coordinator
