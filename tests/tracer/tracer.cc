#include "tests/tracer/tracer.h"

#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/status_macros.h"
#include "tests/unit/patience.h"

namespace dslide {
namespace {

constexpr int64_t kBurst = 16;

}  // namespace

ModelSpec TracerModel(const std::string& name) {
  ModelSpec spec;
  spec.name = name;
  TableSpec table;
  table.name = kTracerTable;
  table.role = TableRole::kDense;
  table.rows = kTracerRows;
  table.dim = 4;
  table.num_slots = 16;
  table.init.kind = InitKind::kZero;
  table.optimizer.kind = OptimizerKind::kSgd;
  table.optimizer.learning_rate = 1.0;
  spec.tables = {table};
  return spec;
}

Tracer::Tracer(std::unique_ptr<ClusterClient> cluster, TracerOptions options)
    : cluster_(std::move(cluster)),
      options_(std::move(options)),
      spec_(TracerModel(options_.model)),
      client_(NewClientId()) {}

absl::StatusOr<std::unique_ptr<Tracer>> Tracer::Start(std::unique_ptr<ClusterClient> cluster,
                                                      TracerOptions options) {
  std::unique_ptr<Tracer> tracer(new Tracer(std::move(cluster), std::move(options)));
  RETURN_IF_ERROR(tracer->Open());
  tracer->thread_ = std::thread([raw = tracer.get()] { raw->Run(); });
  return tracer;
}

Tracer::~Tracer() { Stop(); }

void Tracer::Stop() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
  CloseStreams(streams_);
}

bool Tracer::Await(int64_t steps) const {
  return Eventually([&] { return finished_ >= steps; });
}

absl::Status Tracer::Open() {
  RETURN_IF_ERROR(cluster_->CreateModel(spec_).status());
  const TableSpec& table = spec_.tables[0];
  ASSIGN_OR_RETURN(const SlotMap slots, cluster_->Slots(table.num_slots));
  RETURN_IF_ERROR(ReadCounts(slots));
  gradients_.resize(static_cast<size_t>(cluster_->num_shards()));
  for (uint32_t row = 0; row < kTracerRows; ++row) {
    RowBlock& block = gradients_[slots.OwnerOf(RowId(row)).value()];
    block.dim = table.dim;
    block.rows.push_back(RowId(row));
    block.values.insert(block.values.end(), block.dim, -1.0f);
    block.biases.push_back(0.0f);
  }
  ASSIGN_OR_RETURN(streams_, cluster_->OpenStreams(spec_, client_));
  return absl::OkStatus();
}

absl::Status Tracer::ReadCounts(const SlotMap& slots) {
  std::vector<RowId> wanted;
  for (uint32_t row = 0; row < kTracerRows; ++row) wanted.push_back(RowId(row));
  ASSIGN_OR_RETURN(const RowBlock rows, cluster_->Gather(spec_.name, kTracerTable, wanted));
  counts_.assign(static_cast<size_t>(cluster_->num_shards()), -1);
  for (size_t i = 0; i < rows.values.size(); ++i) {
    const ShardId shard = slots.OwnerOf(wanted[i / static_cast<size_t>(rows.dim)]);
    int64_t& count = counts_[shard.value()];
    if (count < 0) count = static_cast<int64_t>(rows.values[i]);
    if (static_cast<float>(count) == rows.values[i]) continue;
    return absl::DataLossError(absl::StrCat("rows of ", spec_.name, " on shard ", shard.value(),
                                            " show ", count, " and ", rows.values[i],
                                            " steps: a step was applied to some of them only"));
  }
  return absl::OkStatus();
}

absl::Status Tracer::Finish(const std::vector<std::shared_ptr<PendingStep>>& step) {
  for (const auto& pending : step) RETURN_IF_ERROR(pending->Take().status());
  ++finished_;
  return absl::OkStatus();
}

void Tracer::Run() {
  std::deque<std::vector<std::shared_ptr<PendingStep>>> open;
  for (int64_t step = 1; !stop_ && end_.ok(); ++step) {
    auto& pending = open.emplace_back();
    sent_ = step;
    for (size_t shard = 0; shard < streams_.size(); ++shard) {
      pending.push_back(streams_[shard]->Send(
          step, finished_ + 1,
          DenseScatterOp{.table = kTracerTable, .gradients = gradients_[shard]}));
    }
    if (step % kBurst == 0) absl::SleepFor(options_.pause);
    if (static_cast<int64_t>(open.size()) < options_.in_flight) continue;
    end_ = Finish(open.front());
    open.pop_front();
  }
  for (const auto& step : open) {
    if (end_.ok()) end_ = Finish(step);
  }
  ended_ = !end_.ok();
}

}  // namespace dslide
