#include "services/common/trace/otlp_exporter.h"

#include <curl/curl.h>
#include <signal.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/status_macros.h"
#include "core/base/version.h"
#include "core/system/log.h"

namespace dslide {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostWaiting = 4096;
constexpr size_t kEnough = 512;  // are sent at once
constexpr absl::Duration kMoment = absl::Seconds(1);
constexpr long kSendMs = 2000;
constexpr int kUnset = 0;
constexpr int kFailed = 2;

template <size_t kBytes>
std::string IdText(const std::array<uint8_t, kBytes>& id) {
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(id.data()), kBytes));
}

Json Attribute(const std::string& key, const std::string& value) {
  return {{"key", key}, {"value", {{"stringValue", value}}}};
}

Json Resource(const std::string& service) {
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  return {{"attributes",
           {Attribute("service.name", service), Attribute("service.version", Version()),
            Attribute("host.name", host), Attribute("process.pid", absl::StrCat(getpid()))}}};
}

// 64-bit numbers are text in the JSON of protobuf.
Json SpanJson(const SpanRecord& span) {
  Json json = {{"traceId", IdText(span.context.trace_id)},
               {"spanId", IdText(span.context.span_id)},
               {"name", span.name},
               {"kind", static_cast<int>(span.kind)},
               {"startTimeUnixNano", absl::StrCat(absl::ToUnixNanos(span.start))},
               {"endTimeUnixNano", absl::StrCat(absl::ToUnixNanos(span.end))},
               {"attributes", Json::array()}};
  if (span.parent != SpanRecord().parent) json["parentSpanId"] = IdText(span.parent);
  for (const auto& [key, value] : span.attributes) {
    json["attributes"].push_back(Attribute(key, value));
  }
  json["status"]["code"] = span.status.ok() ? kUnset : kFailed;
  if (!span.status.ok()) json["status"]["message"] = std::string(span.status.message());
  return json;
}

struct CloseCurl {
  void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

// A thread that no signal is delivered to: who waits for signals may block them later.
template <typename Run>
std::thread StartWithoutSignals(const Run& run) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(run);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

size_t LeaveOut(char*, size_t size, size_t count, void*) { return size * count; }

}  // namespace

absl::Status CheckTracingSettings(const TracingSettings& settings) {
  const std::string& endpoint = settings.endpoint;
  if (!(settings.sample >= 0 && settings.sample <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("trace-sample ", settings.sample, " is not in [0, 1]"));
  }
  if (endpoint.empty()) return absl::OkStatus();
  CURLU* const url = curl_url();
  const bool parsed = curl_url_set(url, CURLUPART_URL, endpoint.c_str(), 0) == CURLUE_OK;
  curl_url_cleanup(url);
  if (parsed && (absl::StartsWith(endpoint, "http://") || absl::StartsWith(endpoint, "https://"))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "otlp-endpoint ", endpoint, " is not a URL such as http://collector.example:4318"));
}

std::string EncodeSpans(const std::string& service, const std::vector<SpanRecord>& spans) {
  Json list = Json::array();
  for (const SpanRecord& span : spans) list.push_back(SpanJson(span));
  const Json scope = {{"scope", {{"name", "dslide"}, {"version", Version()}}}, {"spans", list}};
  const Json body = {
      {"resourceSpans", {{{"resource", Resource(service)}, {"scopeSpans", Json::array({scope})}}}}};
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<std::unique_ptr<OtlpExporter>> OtlpExporter::Start(const TracingSettings& settings,
                                                                  const std::string& service) {
  RETURN_IF_ERROR(CheckTracingSettings(settings));
  if (settings.endpoint.empty()) return std::unique_ptr<OtlpExporter>();
  curl_global_init(CURL_GLOBAL_DEFAULT);
  return std::unique_ptr<OtlpExporter>(new OtlpExporter(settings, service));
}

OtlpExporter::OtlpExporter(const TracingSettings& settings, const std::string& service)
    : settings_(settings), service_(service), thread_(StartWithoutSignals([this] { Run(); })) {
  SetSpanSink(this);
}

OtlpExporter::~OtlpExporter() {
  SetSpanSink(nullptr);
  {
    const absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  thread_.join();
}

void OtlpExporter::Record(SpanRecord record) {
  const absl::MutexLock lock(&mu_);
  if (waiting_.size() < kMostWaiting) {
    waiting_.push_back(std::move(record));
  } else {
    ++left_out_;
  }
}

void OtlpExporter::Run() {
  for (bool last = false; !last;) {
    std::vector<SpanRecord> spans;
    int64_t lost = 0;
    {
      const absl::MutexLock lock(&mu_);
      const auto due = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
        return stopping_ || waiting_.size() >= kEnough;
      };
      mu_.AwaitWithTimeout(absl::Condition(&due), kMoment);
      last = stopping_;
      spans.swap(waiting_);
      lost = std::exchange(left_out_, 0);
    }
    if (spans.empty() && lost == 0) continue;
    const absl::Status sent = Send(spans);
    if (!sent.ok()) lost += static_cast<int64_t>(spans.size());
    Report(sent, lost);
  }
}

void OtlpExporter::Report(const absl::Status& sent, int64_t lost) {
  if (sent.ok() && lost == 0) {
    failing_ = false;
  } else if (!std::exchange(failing_, true)) {
    LogWarning("spans are lost", {{"collector", settings_.endpoint},
                                  {"spans", lost},
                                  {"error", sent.ok() ? "too many at once" : sent.message()}});
  }
}

absl::Status OtlpExporter::Send(const std::vector<SpanRecord>& spans) const {
  const std::unique_ptr<CURL, CloseCurl> curl(curl_easy_init());
  const std::unique_ptr<curl_slist, CloseCurl> headers(
      curl_slist_append(nullptr, "Content-Type: application/json"));
  const std::string body = EncodeSpans(service_, spans);
  const std::string url = absl::StrCat(
      settings_.endpoint, absl::EndsWith(settings_.endpoint, "/") ? "" : "/", "v1/traces");
  char error[CURL_ERROR_SIZE] = "";
  curl_easy_setopt(curl.get(), CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_TIMEOUT_MS, kSendMs);
  curl_easy_setopt(curl.get(), CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl.get(), CURLOPT_POSTFIELDS, body.data());
  curl_easy_setopt(curl.get(), CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, LeaveOut);
  curl_easy_setopt(curl.get(), CURLOPT_ERRORBUFFER, error);
  if (const CURLcode done = curl_easy_perform(curl.get()); done != CURLE_OK) {
    return absl::UnavailableError(error[0] != '\0' ? error : curl_easy_strerror(done));
  }
  long code = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &code);
  if (code / 100 == 2) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(url, " answered ", code));
}

}  // namespace dslide
