// Rows that a client names, over a cluster of three shards with the C++ client.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "client/cpp/cluster_client.h"
#include "client/cpp/row_slices.h"
#include "client/cpp/shard_stream.h"
#include "core/base/counter_rng.h"
#include "services/embedded/embedded_cluster.h"
#include "tests/unit/patience.h"

namespace dslide {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kLabelRows = 500;
constexpr int64_t kWidth = 16;
constexpr int64_t kQueries = 5;

class ExplicitRowsClusterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    EmbeddedClusterOptions options;
    options.shards = 3;
    options.capacity_weights = {1.0, 2.0, 1.0};
    auto servers = EmbeddedCluster::Start(options);
    ASSERT_TRUE(servers.ok()) << servers.status();
    servers_ = *std::move(servers);
    ClientOptions client;
    client.job = "job";
    client.timeout = kPatience;
    auto cluster = ClusterClient::Connect(
        servers_->coordinator_address(),
        [this](const std::string& address) { return servers_->OpenChannel(address); }, client);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
    spec_.name = "m";
    TableSpec head;
    head.name = "labels";
    head.role = TableRole::kHead;
    head.rows = kLabelRows;
    head.dim = kWidth;
    head.num_slots = 32;
    head.head.max_active = 40;
    head.head.tail_rows = 30;
    spec_.tables = {head};
    ASSERT_TRUE(cluster_->CreateModel(spec_).ok());
    CounterRng rng(3);
    for (int64_t i = 0; i < kQueries * kWidth; ++i) hidden_.push_back(rng.NextGaussian());
    named_.offsets = {0};
    for (int64_t query = 0; query < kQueries; ++query) {
      for (uint32_t row = static_cast<uint32_t>(query); row < kLabelRows; row += 23) {
        named_.rows.emplace_back(row);
        named_.logit_offsets.push_back(rng.NextGaussian());
        named_.weights.push_back(static_cast<float>(row % 3));
      }
      named_.offsets.push_back(static_cast<uint32_t>(named_.rows.size()));
    }
  }

  TopKCommand Query(int64_t k) const {
    TopKCommand query;
    query.model = "m";
    query.table = "labels";
    query.batch = kQueries;
    query.dim = kWidth;
    query.hidden = hidden_;
    query.k = k;
    return query;
  }

  std::unique_ptr<EmbeddedCluster> servers_;
  std::unique_ptr<ClusterClient> cluster_;
  ModelSpec spec_;
  std::vector<float> hidden_;
  ExplicitRows<RowId> named_;
};

TEST_F(ExplicitRowsClusterTest, TopKOfCandidatesIsTheExactOneOfThemWithOffsets) {
  const auto all = cluster_->TopK(Query(kLabelRows));
  ASSERT_TRUE(all.ok()) << all.status();
  TopKCommand query = Query(4);
  query.candidates = named_;
  query.candidates.weights.clear();
  const auto given = cluster_->TopK(query);
  ASSERT_TRUE(given.ok()) << given.status();
  EXPECT_TRUE(given->given);
  EXPECT_EQ(given->scored.scored_rows, static_cast<int64_t>(named_.rows.size()));
  for (int64_t q = 0; q < kQueries; ++q) {
    std::map<RowId, float> logits;
    for (int64_t i = q * kLabelRows; i < (q + 1) * kLabelRows; ++i) {
      logits[all->scored.rows[i]] = all->scored.logits[i];
    }
    std::vector<std::pair<float, RowId>> expected;
    for (uint32_t i = named_.offsets[q]; i < named_.offsets[q + 1]; ++i) {
      expected.emplace_back(-(logits[named_.rows[i]] + named_.logit_offsets[i]), named_.rows[i]);
    }
    std::sort(expected.begin(), expected.end());
    for (int64_t i = 0; i < 4; ++i) {
      EXPECT_EQ(given->scored.rows[q * 4 + i], expected[i].second);
      EXPECT_EQ(given->scored.logits[q * 4 + i], -expected[i].first);
    }
  }
  std::swap(query.candidates.rows[0], query.candidates.rows[1]);
  EXPECT_THAT(std::string(cluster_->TopK(query).status().message()), HasSubstr("sort a sample's"));
}

TEST_F(ExplicitRowsClusterTest, StepsOfNamedRowsTrainOverStreams) {
  const auto slots = cluster_->Slots(32);
  ASSERT_TRUE(slots.ok()) << slots.status();
  const auto parts = SliceExplicit(*slots, named_);
  ASSERT_TRUE(parts.ok()) << parts.status();
  auto streams = cluster_->OpenStreams(spec_, NewClientId());
  ASSERT_TRUE(streams.ok()) << streams.status();
  int64_t pairs = 0;
  for (size_t shard = 0; shard < streams->size(); ++shard) {
    HeadForwardOp op;
    op.table = "labels";
    op.dim = kWidth;
    op.hidden = hidden_;
    op.label_offsets.assign(kQueries + 1, 0);
    op.label_targets.assign(kQueries, 1.0f);
    op.explicit_rows = (*parts)[shard];
    const auto forward = (*streams)[shard]->Send(1, 1, op)->Take();
    ASSERT_TRUE(forward.ok()) << forward.status();
    pairs += std::get<HeadForwardReply>(*forward).output.active_pairs;
    const auto backward =
        (*streams)[shard]
            ->Send(1, 1,
                   HeadBackwardOp{.table = "labels",
                                  .log_partitions = std::vector<float>(kQueries, 6.0f),
                                  .scale = 0.2f})
            ->Take();
    EXPECT_TRUE(backward.ok()) << backward.status();
  }
  // Those of weight 0 are no part of any sum.
  EXPECT_EQ(pairs, std::count_if(named_.weights.begin(), named_.weights.end(),
                                 [](float weight) { return weight > 0.0f; }));
  CloseStreams(*streams);
}

}  // namespace
}  // namespace dslide
