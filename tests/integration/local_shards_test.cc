// Shards of the client's own process answer what they answer through gRPC, to the bit.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/notification.h"
#include "client/cpp/cluster_client.h"
#include "client/cpp/shard_stream.h"
#include "client/cpp/step_channel.h"
#include "client/cpp/wire_counters.h"
#include "core/base/counter_rng.h"
#include "services/embedded/embedded_cluster.h"
#include "tests/unit/patience.h"

namespace dslide {
namespace {

constexpr uint32_t kLocalFeatures = 60;
constexpr int64_t kLocalWidth = 16;
constexpr int64_t kLocalLabels = 500;
constexpr uint32_t kLocalPoints = 40;

class LocalShardsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto servers = EmbeddedCluster::Start({.shards = 2, .threads_per_shard = 1});
    ASSERT_TRUE(servers.ok()) << servers.status();
    servers_ = *std::move(servers);
    remote_ = Connect(kPatience, false);
    local_ = Connect(kPatience, true);
    ASSERT_TRUE(remote_->CreateModel(Spec()).ok());
    RowBlock rows;
    CounterRng rng(7);
    for (uint32_t row = 0; row < kLocalFeatures; ++row) {
      rows.rows.emplace_back(row);
      for (int64_t i = 0; i < kLocalWidth; ++i) rows.values.push_back(rng.NextGaussian());
    }
    rows.dim = kLocalWidth;
    ASSERT_TRUE(remote_->Scatter("m", "input", ScatterMode::kAssign, rows).status.ok());
    AppendPoints();
  }

  static ModelSpec Spec() {
    ModelSpec spec;
    spec.name = "m";
    spec.activations = ActivationType::kBf16;
    spec.tables.resize(3);
    spec.tables[0].name = "input";
    spec.tables[0].role = TableRole::kEmbedding;
    spec.tables[0].rows = kLocalFeatures;
    spec.tables[0].dim = kLocalWidth;
    spec.tables[1].name = "labels";
    spec.tables[1].role = TableRole::kHead;
    spec.tables[1].rows = kLocalLabels;
    spec.tables[1].dim = kLocalWidth;
    spec.tables[1].head.max_active = 40;
    spec.tables[1].head.tail_rows = 30;
    spec.tables[1].head.hash.family = HashFamilyKind::kSimHash;
    spec.tables[1].head.hash.codes_per_table = 4;
    spec.tables[1].head.hash.num_tables = 16;
    spec.tables[2].name = "points";
    spec.tables[2].role = TableRole::kMemory;
    spec.tables[2].rows = kLocalPoints;
    spec.tables[2].memory.labels = kLocalLabels;
    for (TableSpec& table : spec.tables) table.num_slots = 16;
    return spec;
  }

  // With a fixed id, so that errors can be equal.
  std::unique_ptr<ClusterClient> Connect(absl::Duration timeout, bool local) {
    ClientOptions options;
    options.timeout = timeout;
    options.request_id = "fixed";
    if (local) {
      options.local_shards = [this](const std::string& at) { return Find(at); };
    }
    auto client = ClusterClient::Connect(
        servers_->coordinator_address(),
        [this](const std::string& address) { return servers_->OpenChannel(address); }, options);
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }

  LocalShard* Find(const std::string& address) { return servers_->FindShard(address); }

  // TopK calls that the shards have answered.
  int64_t HandledTopKs() const {
    int64_t sum = 0;
    const std::string page = ExposeAll(servers_->metrics());
    for (const absl::string_view line : absl::StrSplit(page, '\n')) {
      if (!absl::StartsWith(line, "grpc_server_handled_total{") ||
          !absl::StrContains(line, "grpc_method=\"TopK\"") ||
          !absl::StrContains(line, "grpc_code=\"OK\"")) {
        continue;
      }
      int64_t count = 0;
      EXPECT_TRUE(absl::SimpleAtoi(line.substr(line.rfind(' ') + 1), &count)) << line;
      sum += count;
    }
    return sum;
  }

  static SparseInputs Inputs(int64_t batch, uint64_t seed) {
    SparseInputs inputs;
    inputs.offsets = {0};
    CounterRng rng(seed);
    for (int64_t sample = 0; sample < batch; ++sample) {
      for (uint32_t feature = 0; feature < kLocalFeatures; ++feature) {
        if (rng.NextBelow(6) != 0) continue;
        inputs.features.emplace_back(feature);
        inputs.values.push_back(rng.NextUniform() + 0.1f);
      }
      inputs.offsets.push_back(static_cast<uint32_t>(inputs.features.size()));
    }
    return inputs;
  }

  void AppendPoints() {
    AppendPointsOp op{
        .table = "points", .inputs = Inputs(kLocalPoints, 3), .label_offsets = {0}, .labels = {}};
    for (uint32_t point = 0; point < kLocalPoints; ++point) {
      op.numbers.push_back(point);
      op.labels.emplace_back(point % 7);
      op.label_offsets.push_back(point + 1);
    }
    auto streams = remote_->OpenStreams(Spec(), NewClientId());
    ASSERT_TRUE(streams.ok()) << streams.status();
    for (const auto& stream : *streams) {
      const auto appended = stream->Send(1, 1, op)->Take();
      ASSERT_TRUE(appended.ok()) << appended.status();
    }
    CloseStreams(*streams);
  }

  // What both clients' shards answer to an operation.
  std::vector<absl::StatusOr<ReplyBody>> AskBoth(const StepOp& op, const std::string& model = "m") {
    ModelSpec spec = Spec();
    spec.name = model;
    std::vector<absl::StatusOr<ReplyBody>> answers;
    for (ClusterClient* const client : {remote_.get(), local_.get()}) {
      for (const auto& channel : client->OpenReads(spec)) {
        answers.push_back(channel->Send(1, 1, op)->Take());
      }
    }
    return answers;
  }

  static TopKCommand Query(int64_t batch, int64_t k) {
    TopKCommand query;
    query.model = "m";
    query.table = "labels";
    query.batch = batch;
    query.dim = kLocalWidth;
    query.k = k;
    CounterRng rng(11);
    for (int64_t i = 0; i < batch * kLocalWidth; ++i) query.hidden.push_back(rng.NextGaussian());
    return query;
  }

  std::unique_ptr<EmbeddedCluster> servers_;
  std::unique_ptr<ClusterClient> remote_;
  std::unique_ptr<ClusterClient> local_;
};

TEST_F(LocalShardsTest, NeighboursAreTheSameBits) {
  for (const int64_t batch : {1, 30}) {
    const SparseInputs inputs = Inputs(batch, 5);
    const auto found =
        AskBoth(FindNeighboursOp{.table = "points", .inputs = inputs, .k = 5, .left_out = {}});
    for (size_t shard = 0; shard < 2; ++shard) {
      ASSERT_TRUE(found[shard].ok()) << found[shard].status();
      ASSERT_TRUE(found[2 + shard].ok()) << found[2 + shard].status();
      const auto& remote = std::get<FindNeighboursReply>(*found[shard]);
      const auto& local = std::get<FindNeighboursReply>(*found[2 + shard]);
      EXPECT_FALSE(remote.points.empty());
      EXPECT_EQ(remote.points, local.points);
      EXPECT_EQ(remote.similarities, local.similarities);
      EXPECT_EQ(remote.counts, local.counts);
      EXPECT_EQ(remote.labels, local.labels);
    }
  }
}

TEST_F(LocalShardsTest, SumsAreRoundedAsOnTheWire) {
  const auto slots = remote_->Slots(16);
  ASSERT_TRUE(slots.ok()) << slots.status();
  for (size_t shard = 0; shard < 2; ++shard) {
    EmbedForwardOp op{.table = "input", .offsets = {0}, .rows = {}, .values = {}};
    for (uint32_t row = 0; row < kLocalFeatures; ++row) {
      if (slots->OwnerOf(RowId(row)).value() != static_cast<int32_t>(shard)) continue;
      op.rows.emplace_back(row);
      op.values.push_back(0.3f + static_cast<float>(row));
    }
    ASSERT_FALSE(op.rows.empty());
    op.offsets.push_back(static_cast<uint32_t>(op.rows.size()));
    const auto answers = AskBoth(op);
    ASSERT_TRUE(answers[shard].ok()) << answers[shard].status();
    ASSERT_TRUE(answers[2 + shard].ok()) << answers[2 + shard].status();
    const MatrixReply& sums = std::get<EmbedForwardReply>(*answers[shard]).partial;
    EXPECT_EQ(sums.data, std::get<EmbedForwardReply>(*answers[2 + shard]).partial.data);
    EXPECT_NE(sums.data, std::vector<float>(sums.data.size()));
    // Of the shard that does not have them.
    EXPECT_FALSE(answers[1 - shard].ok());
    EXPECT_EQ(answers[1 - shard].status(), answers[3 - shard].status());
  }
}

TEST_F(LocalShardsTest, TopKAnswersTheSameBits) {
  for (const int64_t batch : {1, 30}) {
    TopKCommand exact = Query(batch, 10);
    TopKCommand hashed = exact;
    hashed.hashed = true;
    CounterRng rng(13);
    for (int64_t i = 0; i < 16 * batch; ++i) {
      hashed.fingerprints.push_back(static_cast<uint32_t>(rng.NextBelow(16)));
    }
    TopKCommand given = exact;
    given.candidates.offsets = {0};
    for (int64_t q = 0; q < batch; ++q) {
      for (uint32_t row = static_cast<uint32_t>(q); row < kLocalLabels; row += 23) {
        given.candidates.rows.emplace_back(row);
      }
      given.candidates.offsets.push_back(static_cast<uint32_t>(given.candidates.rows.size()));
    }
    for (const TopKCommand& query : {exact, hashed, given}) {
      const auto remote = remote_->TopK(query);
      const auto local = local_->TopK(query);
      ASSERT_TRUE(remote.ok()) << remote.status();
      ASSERT_TRUE(local.ok()) << local.status();
      EXPECT_EQ(remote->scored.rows, local->scored.rows);
      EXPECT_EQ(remote->scored.logits, local->scored.logits);
      EXPECT_EQ(remote->scored.by_query, local->scored.by_query);
      EXPECT_EQ(remote->scored.exact, local->scored.exact);
      EXPECT_EQ(remote->given, local->given);
    }
  }
  EXPECT_GT(remote_->counters().Of(WireMethod::kTopK).bytes_sent, 0);
  EXPECT_EQ(local_->counters().Of(WireMethod::kTopK).bytes_sent, 0) << "no wire between";
}

TEST_F(LocalShardsTest, RefusalsAreTheSame) {
  TopKCommand wide = Query(2, 3);
  wide.dim = kLocalWidth / 2;
  wide.batch = 4;
  TopKCommand deep = Query(1, 3);
  deep.k = 1025;
  TopKCommand unknown = Query(1, 3);
  unknown.table = "lebals";
  for (const TopKCommand& query : {wide, deep, unknown}) {
    const absl::Status remote = remote_->TopK(query).status();
    EXPECT_FALSE(remote.ok());
    EXPECT_EQ(remote, local_->TopK(query).status());
  }
  const auto answers = AskBoth(GetRecordOp{.table = "points", .row = RowId(1)}, "other");
  for (size_t shard = 0; shard < 2; ++shard) {
    EXPECT_FALSE(answers[shard].ok());
    EXPECT_EQ(answers[shard].status(), answers[2 + shard].status());
  }
  // What changes something is refused at this door, too.
  const auto changes = AskBoth(PutRecordOp{.table = "points", .row = RowId(1), .record = "record"});
  EXPECT_EQ(changes[0].status(), changes[2].status());
  EXPECT_EQ(changes[0].status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(LocalShardsTest, AnAnswerAfterTheDeadlineIsAnErrorInTheWordsOfGrpc) {
  const ShardInfo shard = remote_->map().shards[0];
  const auto channel = servers_->OpenChannel(shard.address);
  ASSERT_TRUE(channel.ok()) << channel.status();
  ClientOptions options;
  options.timeout = absl::Nanoseconds(1);
  options.request_id = "fixed";
  options.local_shards = [this](const std::string& at) { return Find(at); };
  WireCounters counters;
  ShardClient client(*channel, shard.shard, shard.address, options, &counters);
  absl::Status late;
  absl::Notification ready;
  client.TopKAsync(Query(1, 3), ShardClient::Turn::kLast,
                   [&](const absl::StatusOr<TopKReply>& answer) {
                     late = answer.status();
                     ready.Notify();
                   });
  ready.WaitForNotification();
  EXPECT_EQ(late, absl::DeadlineExceededError(
                      "shard 0 at inproc:shard-0, TopK: Deadline Exceeded (request fixed)"));
}

TEST_F(LocalShardsTest, CallsAreCountedAsThoseThroughGrpc) {
  const int64_t before = HandledTopKs();
  ASSERT_TRUE(local_->TopK(Query(1, 3)).ok());
  EXPECT_EQ(HandledTopKs(), before + 2);
}

}  // namespace
}  // namespace dslide
