// A network of the course as the product's own trainer reads, orders and cuts its points.

#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/cli/conformance/course.h"
#include "client/trainer/batch_preparer.h"
#include "client/trainer/network.h"
#include "core/engine/data/sparse_dataset.h"
#include "core/protocol/job_work.h"

namespace dslide::cli {

// Immutable and thread-safe.
class NetReference {
 public:
  // Errors: those of the course's data and spec; there are none.
  static absl::StatusOr<std::unique_ptr<NetReference>> Create(const CourseNet& net,
                                                              const std::string& points);

  // The chapter of the course that the network is about.
  Chapter chapter() const { return chapter_; }
  const Network& network() const { return network_; }
  const ModelSpec& spec() const { return network_.spec(); }
  // What a trainer registers; the fingerprint is any.
  const JobSpec& job() const { return job_; }
  // The batch whose first point is at `first` of the epoch's order, cut by shard.
  absl::StatusOr<PreparedBatch> Batch(int64_t epoch, int64_t first, int64_t count) const;

 private:
  NetReference(Chapter chapter, Network network, std::unique_ptr<SparseDataset> data);

  const Chapter chapter_;
  const Network network_;
  const std::unique_ptr<SparseDataset> data_;
  JobSpec job_;
  std::unique_ptr<BatchPreparer> preparer_;
};

}  // namespace dslide::cli
