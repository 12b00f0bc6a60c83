#include "client/cli/serve/predict_server.h"

#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "dslide/v1/predict.grpc.pb.h"
#include "tests/unit/core/net/http/http_get.h"

namespace dslide::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// A net of 12 features, 16 labels and 4 hidden units, with hash tables and without names.
class PredictServerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = new std::string(absl::StrCat(testing::TempDir(), "/serve-test.", getpid()));
    std::filesystem::remove_all(*directory_);
    std::filesystem::copy(absl::StrCat(DSLIDE_SOURCE_DIR, "/tests/golden/formats/model-dir-v1"),
                          *directory_, std::filesystem::copy_options::recursive);
    PredictServerOptions options;
    options.server.binary = "test";
    options.http = "127.0.0.1:0";
    options.model.model.model_dir = *directory_;
    options.model.model.threads = 1;
    global_ = new GlobalOptions();
    auto server = PredictServer::Start(*global_, options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = server->release();
    const absl::Status opened = server_->StartModel();
    ASSERT_TRUE(opened.ok()) << opened;
  }
  static void TearDownTestSuite() {
    delete server_;
    delete global_;
    std::filesystem::remove_all(*directory_);
    delete directory_;
  }

  static grpc::Status Predict(const v1::PredictRequest& request, v1::PredictResponse* response) {
    auto stub = v1::PredictService::NewStub(*server_->runtime().InProcessChannel());
    grpc::ClientContext context;
    return stub->Predict(&context, request, response);
  }
  // The whole answer to a body of POST /v1/predict.
  static std::string Post(const std::string& body, const std::string& headers = "") {
    const int port = std::stoi(server_->http_address().substr(10));
    return HttpRequest(
        port, absl::StrCat("POST /v1/predict HTTP/1.1\r\nHost: x\r\n", "Connection: close\r\n",
                           headers, "Content-Length: ", body.size(), "\r\n\r\n", body));
  }
  static nlohmann::json BodyOf(const std::string& answer) {
    return nlohmann::json::parse(answer.substr(answer.find("\r\n\r\n")));
  }

  static std::string* directory_;
  static GlobalOptions* global_;
  static PredictServer* server_;
};

std::string* PredictServerTest::directory_ = nullptr;
GlobalOptions* PredictServerTest::global_ = nullptr;
PredictServer* PredictServerTest::server_ = nullptr;

TEST_F(PredictServerTest, FeaturesAreRankedExactlyAndAmongWhatHashingFinds) {
  v1::PredictRequest request;
  // Out of order, and twice, so that two queries are ranked together.
  for (int i = 0; i < 2; ++i) {
    v1::SparseFeatures* const features = request.add_queries()->mutable_features();
    for (const uint32_t id : {5u, 0u, 2u}) features->add_ids(id);
  }
  request.set_top_k(3);
  v1::PredictResponse exact;
  ASSERT_TRUE(Predict(request, &exact).ok());
  EXPECT_EQ(exact.model(), "golden");
  ASSERT_EQ(exact.results_size(), 2);
  EXPECT_EQ(exact.results(0).mode(), v1::PREDICT_MODE_EXACT);
  EXPECT_EQ(exact.results(0).scored_rows(), 16u);
  ASSERT_EQ(exact.results(0).labels_size(), 3);
  request.set_mode(v1::PREDICT_MODE_HASHED);
  v1::PredictResponse hashed;
  ASSERT_TRUE(Predict(request, &hashed).ok());
  EXPECT_EQ(hashed.results(0).mode(), v1::PREDICT_MODE_HASHED);
  EXPECT_LT(hashed.results(0).scored_rows(), 16u);
  EXPECT_GT(hashed.results(0).scored_rows(), 0u);
}

TEST_F(PredictServerTest, JsonSaysWhatGrpcSays) {
  v1::PredictRequest request;
  v1::HiddenVector* const hidden = request.add_queries()->mutable_hidden();
  for (const float value : {1.0f, -2.0f, 0.5f, 3.0f}) hidden->add_values(value);
  v1::PredictResponse response;
  ASSERT_TRUE(Predict(request, &response).ok());
  const std::string answer =
      Post(R"({"queries": [{"hidden": {"values": [1, -2, 0.5, 3]}}]})", "X-Request-Id: abc-1\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("X-Request-Id: abc-1\r\n"));
  const nlohmann::json result = BodyOf(answer)["results"][0];
  EXPECT_EQ(result["mode"], "PREDICT_MODE_EXACT");
  EXPECT_EQ(result["scored_rows"], 16);
  ASSERT_EQ(result["labels"].size(), 10u) << "without top_k";
  for (int i = 0; i < 10; ++i) {
    const auto at = static_cast<size_t>(i);
    EXPECT_EQ(result["labels"][at]["id"], response.results(0).labels(i).id());
    EXPECT_EQ(result["labels"][at]["score"].get<float>(), response.results(0).labels(i).score());
  }
}

TEST_F(PredictServerTest, WhatIsWrongIsNamed) {
  const struct {
    const char* body;
    const char* reason;
    const char* said;
  } kCases[] = {
      {"{", "BAD_MESSAGE", "no PredictRequest in JSON"},
      {R"({"queries": [], "topk": 3})", "BAD_MESSAGE", "topk"},
      {R"({"queries": []})", "OUT_OF_RANGE", "queries has 0 entries"},
      {R"({"queries": [{}]})", "MISSING_FIELD", "queries[0] has none of text"},
      {R"({"queries": [{"text": "a"}]})", "WRONG_INPUT", "queries[0].text says nothing"},
      {R"({"queries": [{"features": {"names": ["a"]}}]})", "WRONG_INPUT", "features.names"},
      {R"({"queries": [{"features": {}}]})", "MISSING_FIELD", "either ids or names"},
      {R"({"queries": [{"features": {"ids": [12]}}]})", "OUT_OF_RANGE",
       "queries[0].features.ids[0] is 12, the model has features [0, 12)"},
      {R"({"queries": [{"features": {"ids": [3, 3]}}]})", "NOT_ASCENDING", "feature 3 twice"},
      {R"({"queries": [{"features": {"ids": [3], "values": [1, 2]}}]})", "BAD_SIZE", "2 numbers"},
      {R"({"queries": [{"features": {"ids": [3], "values": ["NaN"]}}]})", "NOT_FINITE",
       "values[0]"},
      {R"({"queries": [{"hidden": {"values": [1]}}]})", "WRONG_DIM", "the head has 4 columns"},
      {R"({"queries": [{"features": {"ids": [1]}}], "top_k": 1025})", "OUT_OF_RANGE", "top_k"},
      {R"({"queries": [{"features": {"ids": [1]}}], "mode": "PREDICT_MODE_NEIGHBOURS"})",
       "BAD_ENUM", "PREDICT_MODE_EXACT and PREDICT_MODE_HASHED"},
  };
  for (const auto& [body, reason, said] : kCases) {
    const std::string answer = Post(body);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 400 ")) << body;
    const nlohmann::json error = BodyOf(answer)["error"];
    EXPECT_EQ(error["code"], "INVALID_ARGUMENT") << body;
    EXPECT_EQ(error["reason"], reason) << body << error;
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr(said)) << body;
    EXPECT_NE(error["request_id"], "");
  }
}

TEST_F(PredictServerTest, OtherRequestsOfHttpAreRefused) {
  const int port = std::stoi(server_->http_address().substr(10));
  EXPECT_THAT(HttpGet(port, "/v1/predict"), StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(HttpGet(port, "/metrics"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(Post("{}", "X-Request-Timeout: soon\r\n"), HasSubstr("X-Request-Timeout"));
  EXPECT_THAT(HttpRequest(port,
                          "POST /v1/predict HTTP/1.1\r\nHost: x\r\n"
                          "Content-Length: 99999999\r\n\r\n"),
              StartsWith("HTTP/1.1 413"));
}

TEST_F(PredictServerTest, TheModelIsDescribedAndThePageIsWhole) {
  const int port = std::stoi(server_->http_address().substr(10));
  const nlohmann::json model =
      BodyOf(HttpRequest(port, "GET /v1/model HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
  EXPECT_EQ(model["model"], "golden");
  EXPECT_EQ(model["num_features"], "12");
  EXPECT_EQ(model["has_feature_names"], false);
  EXPECT_EQ(model["default_mode"], "PREDICT_MODE_EXACT");
  for (const char* path : {"/", "/page.css", "/page.js"}) {
    const std::string page = HttpRequest(
        port, absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
    EXPECT_THAT(page, StartsWith("HTTP/1.1 200"));
    EXPECT_THAT(page, HasSubstr("Content-Security-Policy: default-src 'none'"));
    EXPECT_THAT(page, ::testing::Not(HasSubstr("http://"))) << "nothing from elsewhere";
  }
}

TEST(PredictServerOptionsTest, WhoCallsBeforeTheModelIsThereIsToldToComeAgain) {
  PredictServerOptions options;
  options.server.binary = "test";
  options.model.model.model_dir = testing::TempDir() + "/serve-test.none";
  const GlobalOptions global;
  const auto server = PredictServer::Start(global, options);
  ASSERT_TRUE(server.ok()) << server.status();
  auto stub = v1::PredictService::NewStub(*(*server)->runtime().InProcessChannel());
  v1::PredictRequest request;
  request.add_queries()->set_text("a");
  v1::PredictResponse response;
  grpc::ClientContext predicts;
  EXPECT_EQ(stub->Predict(&predicts, request, &response).error_code(),
            grpc::StatusCode::UNAVAILABLE);
  v1::GetModelResponse model;
  grpc::ClientContext describes;
  EXPECT_EQ(stub->GetModel(&describes, v1::GetModelRequest(), &model).error_code(),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ((*server)->StartModel().code(), absl::StatusCode::kNotFound);
}

TEST(PredictServerOptionsTest, PlaintextThatOthersReachIsRefused) {
  PredictServerOptions options;
  options.server.binary = "test";
  options.http = "0.0.0.0:0";
  const GlobalOptions global;
  const auto server = PredictServer::Start(global, options);
  EXPECT_EQ(server.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(server.status().message(), HasSubstr("--http-plaintext"));
}

}  // namespace
}  // namespace dslide::cli
