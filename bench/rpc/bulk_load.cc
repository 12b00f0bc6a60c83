#include "bench/rpc/bulk_load.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/rpc/random_rows.h"
#include "client/cpp/channel_factory.h"
#include "core/base/counter_rng.h"
#include "core/base/status_macros.h"
#include "core/partition/slot_map.h"

namespace dslide::bench {
namespace {

constexpr char kModel[] = "bench";
constexpr char kTable[] = "rows";
constexpr int kRequestsPerSize = 4;
// Memory of a lane's scatters of one size; large ones have fewer requests.
constexpr int64_t kScatterBytes = int64_t{128} << 20;

}  // namespace

absl::StatusOr<std::unique_ptr<BulkLoad>> BulkLoad::Start(const Options& options) {
  std::unique_ptr<BulkLoad> load(new BulkLoad(options));
  ASSIGN_OR_RETURN(auto channel, NetworkChannels({})(options.address));
  ClientOptions client;
  client.job = kModel;
  load->client_ = std::make_unique<ShardClient>(std::move(channel), ShardId(0), options.address,
                                                client, &load->counters_);
  RETURN_IF_ERROR(load->CreateTable());
  load->lanes_.resize(static_cast<size_t>(options.lanes));
  for (int i = 0; i < options.lanes; ++i) RETURN_IF_ERROR(load->Open(i, load->lanes_[i]));
  return load;
}

absl::Status BulkLoad::CreateTable() {
  TableSpec table;
  table.name = kTable;
  table.role = TableRole::kEmbedding;
  table.rows = options_.table_rows;
  table.dim = options_.dim;
  table.num_slots = std::min<int64_t>(kDefaultNumSlots, options_.table_rows);
  table.optimizer.kind = OptimizerKind::kSgd;
  CreateModelCommand create;
  create.spec.name = kModel;
  create.spec.tables = {table};
  ASSIGN_OR_RETURN(SlotMap slots, SlotMap::Deal(table.num_slots, {1.0}));
  create.slot_maps = {std::move(slots)};
  create.topology_version = 1;
  return client_->CreateModel(create).status();
}

absl::Status BulkLoad::Open(int number, Lane& lane) {
  lane.id = NewClientId();
  ASSIGN_OR_RETURN(const ShardGreeting hello,
                   client_->Hello({.job = kModel, .client = lane.id}, absl::Seconds(10)));
  lane.generation = hello.reply.generation;
  int64_t largest = 0;
  for (const int64_t rows : options_.sizes) {
    MakeRequests(number, rows, lane);
    largest = std::max(largest, rows);
  }
  lane.answer.resize(static_cast<size_t>(largest * options_.dim));
  return absl::OkStatus();
}

void BulkLoad::MakeRequests(int number, int64_t rows, Lane& lane) const {
  Requests& requests = lane.requests[rows];
  const int64_t bytes = rows * options_.dim * static_cast<int64_t>(sizeof(float));
  for (int i = 0; i < kRequestsPerSize; ++i) {
    const auto seed = static_cast<uint64_t>((number * kRequestsPerSize + i) * (int64_t{1} << 32));
    GatherCommand gather;
    gather.model = kModel;
    gather.table = kTable;
    gather.rows = RandomRows(rows, options_.table_rows, seed + static_cast<uint64_t>(rows));
    auto scatter = std::make_shared<ScatterCommand>();  // shared with gRPC while it is sent
    scatter->envelope.model = kModel;
    scatter->envelope.job = kModel;
    scatter->envelope.client = lane.id;
    scatter->table = kTable;
    scatter->rows.rows = gather.rows;
    scatter->rows.dim = options_.dim;
    CounterRng random(seed + static_cast<uint64_t>(rows) + 1);
    scatter->rows.values.resize(static_cast<size_t>(rows * options_.dim));
    for (float& value : scatter->rows.values) value = 1e-3f * (random.NextUniform() - 0.5f);
    requests.gathers.push_back(std::move(gather));
    if (i == 0 || (i + 1) * bytes <= kScatterBytes) requests.scatters.push_back(std::move(scatter));
  }
}

absl::Status BulkLoad::Gather(int lane, int64_t rows) {
  Lane& own = lanes_[lane];
  Requests& requests = own.requests[rows];
  const GatherCommand& command = requests.gathers[requests.next++ % requests.gathers.size()];
  return client_->GatherInto(
      command, options_.dim,
      absl::MakeSpan(own.answer).subspan(0, static_cast<size_t>(rows * options_.dim)), {});
}

absl::Status BulkLoad::Send(Lane& lane, ScatterMode mode,
                            const std::shared_ptr<ScatterCommand>& command) {
  command->mode = mode;
  command->envelope.sequence = ++lane.sequence;
  command->envelope.first_incomplete = lane.sequence;
  command->envelope.generation = lane.generation;
  return client_->Scatter(command, absl::Seconds(30)).status;
}

absl::Status BulkLoad::Scatter(int lane, ScatterMode mode, int64_t rows) {
  Requests& requests = lanes_[lane].requests[rows];
  return Send(lanes_[lane], mode, requests.scatters[requests.next++ % requests.scatters.size()]);
}

absl::Status BulkLoad::CheckRows() {
  for (Lane& lane : lanes_) RETURN_IF_ERROR(CheckRowsOf(lane));
  return absl::OkStatus();
}

absl::Status BulkLoad::CheckRowsOf(Lane& lane) {
  for (auto& [rows, requests] : lane.requests) {
    const ScatterCommand& sent = *requests.scatters[0];
    RETURN_IF_ERROR(Send(lane, ScatterMode::kAssign, requests.scatters[0]));
    const absl::Span<float> got = absl::MakeSpan(lane.answer).subspan(0, sent.rows.values.size());
    RETURN_IF_ERROR(client_->GatherInto(requests.gathers[0], options_.dim, got, {}));
    if (!std::equal(got.begin(), got.end(), sent.rows.values.begin())) {
      return absl::InternalError(
          absl::StrCat("rows that were assigned by a request of ", rows, " rows read differently"));
    }
  }
  return absl::OkStatus();
}

}  // namespace dslide::bench
