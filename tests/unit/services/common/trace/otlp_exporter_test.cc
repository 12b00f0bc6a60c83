#include "services/common/trace/otlp_exporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "core/net/http/http_server.h"

namespace dslide {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr char kCallersSpan[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

// Takes requests as a collector does, or refuses them.
class Collector {
 public:
  explicit Collector(int code = 200) {
    auto server =
        HttpServer::Start({.address = "127.0.0.1:0",
                           .name = "collector",
                           .handle = [this, code](const HttpCall& call) -> HttpReply {
                             const absl::MutexLock lock(&mu_);
                             calls_.push_back(absl::StrCat(call.method, " ", call.path));
                             types_.push_back(call.header("Content-Type"));
                             bodies_.push_back(call.body);
                             return {.code = code, .type = "application/json", .body = "{}"};
                           },
                           .max_body_bytes = 1 << 20});
    server_ = *std::move(server);
  }

  TracingSettings Settings() const {
    return {.endpoint = absl::StrCat("http://", server_->address()), .sample = 1};
  }
  std::vector<std::string> calls() {
    const absl::MutexLock lock(&mu_);
    return calls_;
  }
  std::vector<std::string> types() {
    const absl::MutexLock lock(&mu_);
    return types_;
  }
  // The spans of all requests.
  std::vector<json> spans() {
    const absl::MutexLock lock(&mu_);
    std::vector<json> all;
    for (const std::string& body : bodies_) {
      const json parsed = json::parse(body);
      for (const json& span : parsed["resourceSpans"][0]["scopeSpans"][0]["spans"]) {
        all.push_back(span);
      }
    }
    return all;
  }

 private:
  absl::Mutex mu_;
  std::vector<std::string> calls_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> types_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> bodies_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<HttpServer> server_;  // last: it calls back
};

TEST(OtlpExporterTest, SendsWhatEndedBeforeTheEnd) {
  Collector collector;
  {
    const auto exporter = *OtlpExporter::Start(collector.Settings(), "dslide-test");
    Span span = Span::Begin("work", SpanKind::kServer, ParseTraceparent(kCallersSpan));
    span.SetAttribute("key", "value");
    span.End(absl::NotFoundError("nothing there"));
    Span::Begin("more", SpanKind::kInternal, {}).End(absl::OkStatus());
  }
  const std::vector<json> spans = collector.spans();
  ASSERT_EQ(spans.size(), 2);
  EXPECT_EQ(spans[0]["traceId"], "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_EQ(spans[0]["parentSpanId"], "00f067aa0ba902b7");
  EXPECT_EQ(spans[0]["name"], "work");
  EXPECT_EQ(spans[0]["kind"], 2);
  EXPECT_EQ(spans[0]["attributes"][0]["key"], "key");
  EXPECT_EQ(spans[0]["attributes"][0]["value"]["stringValue"], "value");
  EXPECT_EQ(spans[0]["status"]["code"], 2);
  EXPECT_EQ(spans[0]["status"]["message"], "nothing there");
  EXPECT_LE(std::stoll(spans[0]["startTimeUnixNano"].get<std::string>()),
            std::stoll(spans[0]["endTimeUnixNano"].get<std::string>()));
  EXPECT_FALSE(spans[1].contains("parentSpanId"));
  EXPECT_EQ(spans[1]["status"]["code"], 0);
  EXPECT_EQ(collector.calls()[0], "POST /v1/traces");
  EXPECT_EQ(collector.types()[0], "application/json");
}

TEST(OtlpExporterTest, SaysWhoseSpansTheyAre) {
  const json body = json::parse(EncodeSpans("dslide-test", {}));
  const json attributes = body["resourceSpans"][0]["resource"]["attributes"];
  EXPECT_EQ(attributes[0]["key"], "service.name");
  EXPECT_EQ(attributes[0]["value"]["stringValue"], "dslide-test");
}

TEST(OtlpExporterTest, TextOfAPeerDoesNotBreakTheMessage) {
  SpanRecord record;
  record.name = "\xff\"\n";
  EXPECT_FALSE(json::parse(EncodeSpans("dslide-test", {record})).is_discarded());
}

TEST(OtlpExporterTest, ACollectorThatRefusesOrIsNotThereDoesNotHoldUpWork) {
  Collector refuses(503);
  for (const std::string& endpoint :
       {refuses.Settings().endpoint, std::string("http://127.0.0.1:1")}) {
    testing::internal::CaptureStderr();
    {
      const auto exporter =
          *OtlpExporter::Start({.endpoint = endpoint, .sample = 1}, "dslide-test");
      Span::Begin("work", SpanKind::kInternal, {}).End(absl::OkStatus());
    }
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("spans are lost"));
  }
}

TEST(OtlpExporterTest, WithoutAnEndpointThereIsNone) {
  EXPECT_EQ(*OtlpExporter::Start({}, "dslide-test"), nullptr);
}

TEST(OtlpExporterTest, RefusesWhatIsNoEndpoint) {
  for (const char* const endpoint : {"collector:4318", "grpc://collector:4317", "http://", "x"}) {
    EXPECT_THAT(std::string(CheckTracingSettings({.endpoint = endpoint, .sample = 0}).message()),
                HasSubstr(endpoint));
  }
  EXPECT_FALSE(CheckTracingSettings({.endpoint = "", .sample = 1.5}).ok());
  EXPECT_TRUE(CheckTracingSettings({.endpoint = "https://c.example/otlp", .sample = 0.1}).ok());
}

}  // namespace
}  // namespace dslide
