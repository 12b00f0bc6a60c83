// Asks a server of this process for predictions, over loopback as any client would.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/serve/predict_server.h"
#include "core/engine/data/sparse_batch.h"
#include "dslide/v1/predict.grpc.pb.h"

namespace dslide::bench {

struct PredictAnswer {
  std::vector<std::vector<uint32_t>> labels;  // [queries], the best first
  std::vector<double> scored_rows;            // [queries]
  bool exact = false;
  uint32_t checksum = 0;  // of all that was answered
};

// What a scan of all rows reads.
struct HeadShape {
  int64_t rows = 0;
  int64_t dim = 0;    // 0: a memory scores the labels, and nothing scans all
  int64_t bytes = 0;  // of the weights
};

class PredictClient {
 public:
  static PredictClient Open(cli::PredictServer& server);

  // One request for the points [first, first + batch). Errors: the server's.
  absl::StatusOr<PredictAnswer> Predict(const SparseBatch& points, int64_t first, int64_t batch,
                                        int64_t k, v1::PredictMode mode) const;
  // A request that nothing is ranked for: what a call costs by itself.
  absl::Status Describe() const;
  const HeadShape& head() const { return head_; }

 private:
  std::unique_ptr<v1::PredictService::Stub> stub_;
  HeadShape head_;
};

}  // namespace dslide::bench
