// Trains a head of 1,000 labels for some steps on one sample, from outside the tree: the loss
// falls, and the label comes first. Usage: one_step COORDINATOR

#include <dslide/client.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

namespace {

constexpr dslide::RowId kLabel = dslide::RowId(17);
constexpr int kDim = 8;

dslide::ModelSpec Spec() {
  dslide::TableSpec labels;
  labels.name = "labels";
  labels.role = dslide::TableRole::kHead;
  labels.rows = 1000;
  labels.dim = kDim;
  labels.head.max_active = 0;  // all rows
  labels.head.tail_rows = 0;
  labels.optimizer.learning_rate = 0.1;
  return {.name = "one-step", .seed = 1, .tables = {labels}};
}

template <typename T>
T OrDie(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::fprintf(stderr, "%s\n", value.status().ToString().c_str());
  std::exit(1);
}

using Streams = std::vector<std::unique_ptr<dslide::ShardStream>>;

// The sample's loss before the update.
double TrainStep(Streams& streams, const dslide::SlotMap& slots, int64_t step,
                 const std::vector<float>& hidden) {
  std::vector<std::shared_ptr<dslide::PendingStep>> pending;
  for (size_t shard = 0; shard < streams.size(); ++shard) {
    const bool has_label = slots.OwnerOf(kLabel).value() == static_cast<int32_t>(shard);
    dslide::HeadForwardOp forward{.table = "labels", .dim = kDim, .hidden = hidden};
    forward.label_offsets = {0, has_label ? 1u : 0u};
    if (has_label) forward.labels = {kLabel};
    forward.label_targets = {1.0f};
    pending.push_back(streams[shard]->Send(step, step, std::move(forward)));
  }
  double sum = 0;
  double label_logit = 0;
  for (const auto& answer : pending) {
    const auto body = OrDie(answer->Take());
    const auto& output = std::get<dslide::HeadForwardReply>(body).output;
    sum += output.exp_sums[0] * std::exp(output.max_logits[0]);
    if (!output.label_logits.empty()) label_logit = output.label_logits[0];
  }
  pending.clear();
  for (auto& stream : streams) {
    pending.push_back(
        stream->Send(step, step,
                     dslide::HeadBackwardOp{.table = "labels",
                                            .log_partitions = {static_cast<float>(std::log(sum))},
                                            .scale = 1.0f}));
  }
  for (const auto& answer : pending) OrDie(answer->Take());
  return std::log(sum) - label_logit;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  auto cluster = OrDie(dslide::ClusterClient::Connect(argv[1], dslide::NetworkChannels({}), {}));
  const dslide::ModelSpec spec = Spec();
  OrDie(cluster->CreateModel(spec));
  const dslide::SlotMap slots = OrDie(cluster->Slots(spec.tables[0].num_slots));
  Streams streams = OrDie(cluster->OpenStreams(spec, dslide::NewClientId()));
  const std::vector<float> hidden(kDim, 1.0f);
  const double first = TrainStep(streams, slots, 1, hidden);
  double last = first;
  for (int64_t step = 2; step <= 20; ++step) last = TrainStep(streams, slots, step, hidden);
  dslide::CloseStreams(streams);
  const dslide::TopKReply best = OrDie(cluster->TopK(
      {.model = spec.name, .table = "labels", .batch = 1, .dim = kDim, .hidden = hidden, .k = 1}));
  std::printf("loss %.4f, then %.4f; best label %u; %lld shards\n", first, last,
              best.scored.rows[0].value(), static_cast<long long>(cluster->num_shards()));
  return last < first && best.scored.rows[0] == kLabel ? 0 : 1;
}
