// An error at a client is found in the servers' log by the id that it names.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cpp/cluster_client.h"
#include "client/cpp/shard_stream.h"
#include "core/system/log.h"
#include "services/embedded/embedded_cluster.h"
#include "tests/unit/patience.h"

namespace dslide {
namespace {

using ::testing::HasSubstr;

class RequestIdTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(SetLog("info", "text").ok());
    auto servers = EmbeddedCluster::Start(EmbeddedClusterOptions{.shards = 1});
    ASSERT_TRUE(servers.ok()) << servers.status();
    servers_ = *std::move(servers);
  }

  std::unique_ptr<ClusterClient> Client(const std::string& request_id) {
    ClientOptions options;
    options.timeout = kPatience;
    options.request_id = request_id;
    auto client = ClusterClient::Connect(
        servers_->coordinator_address(),
        [this](const std::string& address) { return servers_->OpenChannel(address); }, options);
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }

  // What call() returns, and the server's line on it. Lines of failed calls are rationed over the
  // process: one that is left out comes with a later call.
  template <typename Call>
  static std::pair<std::string, std::string> ErrorAndLine(const Call& call) {
    std::pair<std::string, std::string> found;
    Eventually([&] {
      ::testing::internal::CaptureStderr();
      found.first = std::string(call().message());
      const std::string log = ::testing::internal::GetCapturedStderr();
      const std::string id = absl::StrCat("request=", IdIn(found.first), " ");
      for (const absl::string_view line : absl::StrSplit(log, '\n')) {
        if (absl::StrContains(line, id)) found.second = std::string(line);
      }
      return !found.second.empty();
    });
    return found;
  }

  // The id in "... (request ID)".
  static std::string IdIn(const std::string& error) {
    const size_t start = error.rfind("(request ");
    return start == std::string::npos ? ""
                                      : error.substr(start + 9, error.find(')', start) - start - 9);
  }

  std::unique_ptr<EmbeddedCluster> servers_;
};

TEST_F(RequestIdTest, EachCallHasItsOwn) {
  const auto client = Client("");
  GatherCommand gather;
  gather.model = "none";
  gather.table = "t";
  gather.rows = {RowId(0)};
  const std::vector<std::function<absl::Status()>> calls = {
      [&] { return client->coordinator().CreateCheckpoint("none", "best").status(); },
      [&] { return client->shard(ShardId(0)).DescribeModel("none", false).status(); },
      [&] { return client->shard(ShardId(0)).Gather(gather).status(); }};
  std::string last;
  for (const auto& call : calls) {
    const auto [error, line] = ErrorAndLine(call);
    const std::string id = IdIn(error);
    ASSERT_EQ(id.size(), 16u) << error;
    EXPECT_NE(id, last);
    EXPECT_THAT(line, HasSubstr(absl::StrCat("request=", id, " ")));
    last = id;
  }
}

TEST_F(RequestIdTest, ACallersOwnIsOnEveryCallAndStep) {
  const auto client = Client("job-7");
  ModelSpec spec;
  spec.name = "none";
  auto streams = client->OpenStreams(spec, NewClientId());
  ASSERT_TRUE(streams.ok()) << streams.status();
  const auto [error, line] = ErrorAndLine(
      [&] { return (*streams)[0]->Send(1, 1, DenseGatherOp{.table = "t"})->Take().status(); });
  EXPECT_EQ(IdIn(error), "job-7") << error;
  EXPECT_THAT(line, HasSubstr("request=job-7 method=Step code=NOT_FOUND reason=UNKNOWN_MODEL"));
  CloseStreams(*streams);
}

}  // namespace
}  // namespace dslide
