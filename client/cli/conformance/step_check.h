// One step of a client, compared with the product's own trainer arithmetic on the same answers.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/cli/conformance/layers/hidden_layers.h"
#include "client/cli/conformance/net_reference.h"
#include "client/cli/conformance/verdicts.h"
#include "client/trainer/softmax_combine.h"
#include "core/protocol/commands.h"

namespace dslide::cli {

// Not thread-safe.
class StepCheck {
 public:
  // `net` and `verdicts` outlive it. `first`: position of the batch in the epoch's order.
  StepCheck(const NetReference& net, PreparedBatch batch, int64_t step, int64_t first,
            Verdicts& verdicts);

  // An operation of the step that arrived for a shard.
  void Request(int shard, const StepOp& op);
  // What the shard answers to it, before the client knows. `table`: of a dense layer.
  void Answer(int shard, absl::string_view table, const ReplyBody& reply);

  Chapter chapter() const { return net_.chapter(); }
  // Every shard has answered the last operation.
  bool done() const { return answered_[3] == all_shards_ && layers_.done(); }
  // The client has no further operation of the step for the shard.
  bool Over(int shard) const {
    return (asked_[3] >> shard & 1) != 0 && !layers_.FirstUnsent(shard).has_value();
  }
  int64_t samples() const { return batch_.samples(); }
  double loss_sum() const { return loss_.has_value() ? loss_->loss_sum : 0.0; }
  // What is missing of a step that is not done: "HeadBackward to shard 2".
  std::string Missing() const;

 private:
  void Check(int shard, const EmbedForwardOp& op);
  void Check(int shard, const HeadForwardOp& op);
  void Check(int shard, const HeadBackwardOp& op);
  void Check(int shard, const EmbedBackwardOp& op);
  void Check(int shard, const DenseGatherOp& op);
  void Check(int shard, const DenseScatterOp& op);
  // Operations that a network of the course has no use for.
  template <typename Other>
  void Check(int shard, const Other&) {
    Tell(shard, "the operation", "one on another table",
         "EmbedForward, DenseGather, HeadForward, HeadBackward, DenseScatter, EmbedBackward");
  }

  void CheckHidden(int shard, absl::Span<const float> found);
  void CheckFingerprints(int shard, const HeadForwardOp& op);
  void CheckLabels(int shard, const HeadForwardOp& op);
  void CheckRate(int shard, const TableSpec& table, const LearningRate& found);
  // Tells of the first number outside of its interval, and why it must be there. `rows`: of which
  // [rows, width] is; empty: of the samples.
  void CheckWithin(int shard, const char* field, absl::Span<const float> found,
                   absl::Span<const Interval> wanted, absl::Span<const RowId> rows = {},
                   const std::string& why = "");
  // Whether a unit that dropout leaves out is not, or the other way round; told of.
  bool CheckDropout(int shard, absl::Span<const float> found);
  // Whether the answers to operation `stage` were all seen; tells where they were not.
  bool Has(int shard, int stage);
  // The same of all dense layers' rows.
  bool HasLayers(int shard);
  // The layer of an operation's table; none, and told of, where it is of none or comes once more.
  std::optional<size_t> LayerOf(int shard, HiddenLayers::Kind kind, const std::string& table);
  // What dropout does to gradients; empty without it.
  std::string WhyMasked() const;
  // The bounds of all gradients, where the answers and the client's own hidden vectors make them.
  bool Backward(int shard);
  void Tell(int shard, std::string field, std::string found, std::string expected,
            const std::string& where = "");

  const NetReference& net_;
  const PreparedBatch batch_;
  const int64_t step_;
  const int64_t first_;
  Verdicts& verdicts_;
  const uint32_t all_shards_;
  const char* call_ = "";                      // of the operation that is looked at
  std::array<uint32_t, 4> asked_ = {};         // shards, as bits, by stage
  std::array<uint32_t, 4> answered_ = {};      // the same
  std::vector<MatrixReply> partials_;          // by shard
  std::vector<HeadForwardOutput> heads_;       // by shard
  std::vector<MatrixReply> hidden_gradients_;  // by shard
  std::vector<float> hidden_;                  // [samples, dim] as the client sent it
  HiddenLayers layers_;
  bool forward_ = false;   // layers_ has the bounds of the hidden vectors
  bool backward_ = false;  // and those of the gradients
  std::optional<CombinedLoss> loss_;
};

}  // namespace dslide::cli
