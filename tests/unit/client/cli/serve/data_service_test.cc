// A server of data and the data sets that trainers see through it.

#include "client/cli/serve/data_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/source/served_dataset_client.h"
#include "core/engine/data/dataset_info.h"
#include "core/engine/data/sparse_dataset.h"
#include "services/common/server/server_runtime.h"

namespace dslide::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kPoints[] = "4 6 5\n1,3 0:0.5 5:-2\n 4:1\n0\n3 1:1 2:1 3:0.25\n";

std::unique_ptr<Dataset> Parse(const std::string& text) {
  SparseDatasetOptions options;
  options.count_document_frequency = true;
  auto data = SparseDataset::FromText("points.txt", text, options);
  EXPECT_TRUE(data.ok()) << data.status();
  return *std::move(data);
}

ServedData Counted(std::unique_ptr<Dataset> data) {
  ServedData served;
  served.label_points = CountLabels(*data, Parallelism{1})->of_label;
  served.tokenizer = "{}";
  served.data = std::move(data);
  return served;
}

// On a port of this machine.
class DataServer {
 public:
  explicit DataServer(const std::string& listen = "127.0.0.1:0") {
    ServerOptions options;
    options.binary = "test";
    options.listen = listen;
    auto runtime = ServerRuntime::Start(options, {{&service_, kDataServiceName}}, metrics_);
    EXPECT_TRUE(runtime.ok()) << runtime.status();
    runtime_ = *std::move(runtime);
  }

  void Serve(const std::string& text) {
    ServedDatasets datasets;
    datasets["data"] = Counted(Parse(text));
    service_.Open(std::move(datasets));
  }
  std::string address() const { return runtime_->address(); }
  std::string url() const { return absl::StrCat("grpc://", address(), "/data"); }

 private:
  Metrics metrics_;
  DataServiceImpl service_{metrics_};
  std::unique_ptr<ServerRuntime> runtime_;
};

std::unique_ptr<ServedDataset> Open(const DataServer& server) {
  auto data = ServedDataset::Open(server.url(), ServedDataOptions());
  EXPECT_TRUE(data.ok()) << data.status();
  return *std::move(data);
}

SparseBatch Read(const Dataset& data, const std::vector<int64_t>& points) {
  SparseBatch batch;
  const absl::Status status = data.ReadSamples(points, &batch);
  EXPECT_TRUE(status.ok()) << status;
  return batch;
}

void ExpectSameSamples(const Dataset& a, const Dataset& b, const std::vector<int64_t>& points) {
  const SparseBatch in_a = Read(a, points);
  const SparseBatch in_b = Read(b, points);
  EXPECT_EQ(in_a.samples(), static_cast<int64_t>(points.size()));
  EXPECT_EQ(in_a.feature_offsets, in_b.feature_offsets);
  EXPECT_EQ(in_a.features, in_b.features);
  EXPECT_EQ(in_a.values, in_b.values);
  EXPECT_EQ(in_a.label_offsets, in_b.label_offsets);
  EXPECT_EQ(in_a.labels, in_b.labels);
}

TEST(DataServiceTest, DataIsWhatTheServerHas) {
  DataServer server;
  server.Serve(kPoints);
  const std::unique_ptr<Dataset> here = Parse(kPoints);
  const std::unique_ptr<ServedDataset> served = Open(server);
  EXPECT_EQ(served->num_points(), 4);
  EXPECT_EQ(served->num_features(), 6);
  EXPECT_EQ(served->num_labels(), 5);
  EXPECT_EQ(served->Fingerprint(), here->Fingerprint());
  EXPECT_EQ(served->tokenizer(), "{}");
  EXPECT_EQ(served->FeatureName(0), "");
  EXPECT_EQ(served->DocumentFrequency(), here->DocumentFrequency());
  EXPECT_THAT(served->LabelFrequency(), ElementsAre(1, 1, 0, 2, 0));
  EXPECT_EQ(CountLabels(*served, Parallelism{2})->of_label,
            CountLabels(*here, Parallelism{1})->of_label);
  ExpectSameSamples(*served, *here, {3, 0, 0, 2, 1});
  ExpectSameSamples(*served, *here, {});
}

TEST(DataServiceTest, PointsBeyondOneAnswerAreAskedForAgain) {
  // 60 points of 20,000 features: three answers; 9,000 of no feature: as many requests.
  std::string text = "9060 20000 3\n";
  for (int p = 0; p < 60; ++p) {
    absl::StrAppend(&text, p % 3);
    for (int f = 0; f < 20000; ++f) absl::StrAppend(&text, " ", f, ":", 1 + (f + p) % 7);
    text += '\n';
  }
  for (int p = 60; p < 9060; ++p) absl::StrAppend(&text, p % 3, "\n");
  DataServer server;
  server.Serve(text);
  std::vector<int64_t> points(9060);
  std::iota(points.rbegin(), points.rend(), 0);
  ExpectSameSamples(*Open(server), *Parse(text), points);
}

TEST(DataServiceTest, ATrainerWaitsWhileTheDataIsRead) {
  DataServer server;
  auto opened = std::async(std::launch::async, [&] { return Open(server); });
  server.Serve(kPoints);
  EXPECT_EQ(opened.get()->num_points(), 4);
}

TEST(DataServiceTest, OtherDataEndsWhatWasBegun) {
  auto server = std::make_unique<DataServer>();
  server->Serve(kPoints);
  const std::string address = server->address();
  const std::unique_ptr<ServedDataset> served = Open(*server);
  server.reset();
  server = std::make_unique<DataServer>(address);
  server->Serve(kPoints);
  ExpectSameSamples(*served, *Parse(kPoints), {1});
  server.reset();
  server = std::make_unique<DataServer>(address);
  server->Serve("4 6 5\n1 0:1\n1 0:1\n1 0:1\n1 0:1\n");
  SparseBatch batch = Read(*Open(*server), {0});
  const absl::Status status = served->ReadSamples({1}, &batch);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_EQ(batch.samples(), 0);
}

TEST(DataServiceTest, WhatIsNotThereIsNamed) {
  DataServer server;
  server.Serve(kPoints);
  const auto eval =
      ServedDataset::Open(absl::StrCat("grpc://", server.address(), "/eval"), ServedDataOptions());
  EXPECT_TRUE(absl::IsNotFound(eval.status())) << eval.status();
  EXPECT_THAT(eval.status().message(), HasSubstr("there is \"data\""));
  for (const std::string url : {"grpc://", "grpc:///data", "grpc://127.0.0.1:7040",
                                "grpc://127.0.0.1:7040/", "train.txt"}) {
    const auto malformed = ServedDataset::Open(url, ServedDataOptions());
    EXPECT_TRUE(absl::IsInvalidArgument(malformed.status())) << url;
    EXPECT_THAT(malformed.status().message(), HasSubstr("grpc://HOST:PORT/data"));
  }
  const std::unique_ptr<ServedDataset> served = Open(server);
  SparseBatch batch;
  for (const int64_t point : {int64_t{-1}, int64_t{4}}) {
    EXPECT_TRUE(absl::IsOutOfRange(served->ReadSamples({0, point}, &batch)));
    EXPECT_EQ(batch.samples(), 0);
  }
}

TEST(DataServiceTest, RequestsAreChecked) {
  DataServer server;
  server.Serve(kPoints);
  const auto channel = NetworkChannels(ChannelOptions())(server.address());
  const auto stub = v1::DataService::NewStub(*channel);
  const uint64_t fingerprint = Parse(kPoints)->Fingerprint();
  const auto read = [&](const std::vector<int64_t>& points) {
    v1::ReadPointsRequest request;
    request.set_dataset("data");
    request.set_fingerprint(fingerprint);
    request.mutable_points()->Add(points.begin(), points.end());
    v1::ReadPointsResponse response;
    grpc::ClientContext context;
    return stub->ReadPoints(&context, request, &response);
  };
  EXPECT_TRUE(read({0}).ok());
  EXPECT_EQ(read({}).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(read({0, 4}).error_message(), HasSubstr("points[1] is 4"));
  EXPECT_THAT(read({-1}).error_message(), HasSubstr("points[0] is -1"));
  EXPECT_THAT(read(std::vector<int64_t>(4097)).error_message(), HasSubstr("4097 entries"));
  for (const int64_t first : {int64_t{-1}, int64_t{5}}) {
    v1::ListLabelsRequest request;
    request.set_dataset("data");
    request.set_fingerprint(fingerprint);
    request.set_first(first);
    v1::ListLabelsResponse response;
    grpc::ClientContext context;
    EXPECT_THAT(stub->ListLabels(&context, request, &response).error_message(),
                HasSubstr(absl::StrCat("first is ", first)));
  }
}

}  // namespace
}  // namespace dslide::cli
