// Training steps on their way through the shards, several at a time, in an order that is fixed.
//
// A step is four exchanges with every shard: embed forward (with the gathers of the dense layers),
// head forward, head backward, embed backward (with the scatters of the dense layers); the last one
// is not waited for before the next step starts, for shards answer in order.
//
// Every shard answers a channel in the order of its requests. The pipeline always waits for the
// oldest outstanding exchange, does the arithmetic between it and the next, sends that, and puts
// the step at the end of the queue. So the order of the commands at each shard is a function of the
// batches and `in_flight_steps` alone, never of timing: equal input gives equal bits.
//
// At most `in_flight_steps` steps have a gradient that is not applied yet: the staleness bound.

#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/cpp/step_channel.h"
#include "client/trainer/batch_preparer.h"
#include "client/trainer/network.h"
#include "client/trainer/softmax_combine.h"
#include "core/base/clock.h"

namespace dslide {

// What a finished step did.
struct FinishedStep {
  int64_t step = 0;
  uint64_t lease = 0;
  int64_t epoch = 0;
  int64_t samples = 0;
  double loss_sum = 0;
  int64_t active_pairs = 0;   // over shards and samples
  int64_t distinct_rows = 0;  // head rows loaded, over shards
  int64_t rejected_rows = 0;  // of both tables, left unchanged for the model's magnitude bound
  RecallCount recall;
};

// Where the pipeline's own time went, in seconds; the rest was waiting for batches.
struct StageSeconds {
  double wait_embed_forward = 0;
  double wait_head_forward = 0;
  double wait_head_backward = 0;
  double hash = 0;
  double compute = 0;

  StageSeconds& operator+=(const StageSeconds& other) {
    wait_embed_forward += other.wait_embed_forward;
    wait_head_forward += other.wait_head_forward;
    wait_head_backward += other.wait_head_backward;
    hash += other.hash;
    compute += other.compute;
    return *this;
  }
};

struct PipelineOptions {
  int64_t in_flight_steps = 2;  // [1, 64]
  uint64_t seed = 1;            // of the hidden dropout and the choice of recall samples
  Parallelism parallelism;
};

// Thread safety: one thread at a time; callbacks run on it.
class StepPipeline {
 public:
  // `shards` by ordinal; `next_step` numbers the steps, and is advanced: between two steps another
  // user of the channels (an Evaluator) may take numbers from it. Everything passed in must outlive
  // the pipeline.
  StepPipeline(const Network& network, std::vector<StepChannel*> shards, PipelineOptions options,
               int64_t* next_step, const Clock& clock,
               std::function<void(const FinishedStep&)> on_finished);
  ~StepPipeline();

  // Starts a step; first moves older steps on until fewer than in_flight_steps are under way.
  // An empty batch is not a step.
  // Errors: those of the shards, with the shard, the step and the exchange. The pipeline is then
  // broken: the steps under way are in an unknown state.
  absl::Status Submit(PreparedBatch batch);

  // Finishes all steps under way.
  absl::Status Drain();

  const StageSeconds& seconds() const { return seconds_; }

 private:
  enum class Stage { kEmbedForward, kHeadForward, kHeadBackward, kEmbedBackward };
  struct InFlight;
  using Answers = std::vector<ReplyBody>;

  void Start(PreparedBatch batch);
  absl::Status AdvanceOldest();
  absl::Status AfterEmbedForward(InFlight& step);
  absl::Status AfterHeadForward(InFlight& step);
  absl::Status AfterHeadBackward(InFlight& step);
  absl::Status CollectFinished(int64_t up_to_exchange);

  int64_t FirstOpenStep(const InFlight& step) const;
  HiddenDropout DropoutOf(const InFlight& step) const;
  void SendTo(InFlight& step, size_t shard, StepOp op);
  absl::StatusOr<Answers> Await(InFlight& step, const char* exchange, double& seconds);
  absl::Status ForwardHidden(InFlight& step, const Answers& answers);
  void SendHeadForward(InFlight& step);

  const Network& network_;
  const std::vector<StepChannel*> shards_;
  const PipelineOptions options_;
  const HeadSpec head_;  // without open settings
  const Clock& clock_;
  const std::function<void(const FinishedStep&)> on_finished_;
  int64_t* const next_step_;
  int64_t next_exchange_ = 0;
  std::deque<std::unique_ptr<InFlight>> under_way_;  // by the age of their exchange
  std::deque<std::unique_ptr<InFlight>> closing_;    // only the last answer is missing
  StageSeconds seconds_;
};

// Adds the shards' partial sums in shard order. Each [batch, width].
// Errors: Internal when a part has another shape.
absl::StatusOr<std::vector<float>> AddPartials(absl::Span<const MatrixReply* const> parts,
                                               int64_t batch, int64_t width);

}  // namespace dslide
