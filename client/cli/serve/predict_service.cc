#include "client/cli/serve/predict_service.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "client/cli/serve/predict_page.h"
#include "client/cli/serve/predict_request_service.h"
#include "core/base/clock.h"
#include "core/base/reason.h"
#include "core/base/retry_after.h"
#include "core/base/status_macros.h"
#include "core/base/units.h"
#include "core/base/version.h"
#include "core/protocol/reason_words.h"
#include "core/wire/request_id.h"
#include "core/wire/status_details.h"
#include "services/common/call_span.h"
#include "services/common/failed_call.h"
#include "services/common/trace/span.h"

namespace dslide::cli {
namespace {

constexpr char kJsonType[] = "application/json";

// As google.rpc.Code maps them.
int HttpCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
      return 400;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kUnavailable:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

HttpReply ErrorReply(const absl::Status& error, const std::string& request_id) {
  LogFailure("http", request_id, error);
  nlohmann::ordered_json json;
  json["error"]["code"] = absl::StatusCodeToString(error.code());
  json["error"]["reason"] = ReasonOf(error);
  json["error"]["message"] = wire::ErrorMessageForWire(error.message());
  json["error"]["request_id"] = request_id;
  HttpReply reply = {.code = HttpCodeOf(error), .type = kJsonType, .body = json.dump() + "\n"};
  if (const int64_t pause_ms = RetryAfterMs(error); pause_ms > 0) {
    reply.headers.emplace_back("Retry-After", absl::StrCat((pause_ms + 999) / 1000));
  }
  return reply;
}

// Numbers that are 0 and lists that are empty, too. Protobuf 26 has renamed the option.
template <typename Options>
void PrintAllFields(Options& options) {
  if constexpr (requires { options.always_print_fields_with_no_presence; }) {
    options.always_print_fields_with_no_presence = true;
  } else {
    options.always_print_primitive_fields = true;
  }
}

std::string JsonOf(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  PrintAllFields(options);
  std::string json;
  // A message of ours always has a form.
  (void)google::protobuf::util::MessageToJsonString(message, &json, options);
  return json + "\n";
}

absl::Status NotThereYet() {
  return StatusWithReason(absl::StatusCode::kUnavailable, reason::kUnknownModel,
                          "the model is not there yet, this server waits for it: ask again later");
}

absl::StatusOr<absl::Duration> TimeoutOf(const HttpCall& call) {
  const std::string wanted = call.header("X-Request-Timeout");
  if (wanted.empty()) return absl::InfiniteDuration();
  absl::StatusOr<absl::Duration> parsed = ParseDuration(wanted);
  if (parsed.ok()) return parsed;
  return StatusWithReason(absl::StatusCode::kInvalidArgument, reason::kOutOfRange,
                          absl::StrCat("X-Request-Timeout: ", parsed.status().message()));
}

}  // namespace

// One unary call. Owns itself: deleted when it is over.
class PredictServiceImpl::Call final : public grpc::ServerUnaryReactor {
 public:
  Call(const RpcMetrics::Method& method, grpc::CallbackServerContext* context,
       const google::protobuf::Message& request)
      : method_(method),
        context_(context),
        start_(SteadyClock().Now()),
        span_(BeginCall(method, context->client_metadata())) {
    method_.RecordStarted();
    method_.RecordMessage(MessageDirection::kReceived,
                          static_cast<int64_t>(request.ByteSizeLong()));
  }

  void OnDone() override { delete this; }

  const TraceContext& trace() const { return span_.context(); }

  // response: what was filled, when status is OK.
  void End(const absl::Status& status, const google::protobuf::Message& response) {
    if (status.ok()) {
      method_.RecordMessage(MessageDirection::kSent, static_cast<int64_t>(response.ByteSizeLong()));
    }
    method_.RecordHandled(status.code(), SteadyClock().Now() - start_);
    span_.End(status);
    Finish(status.ok()
               ? grpc::Status::OK
               : EndFailedCall(method_.name(), RequestIdOf(context_->client_metadata()), status));
  }

 private:
  const RpcMetrics::Method& method_;
  grpc::CallbackServerContext* const context_;
  const absl::Duration start_;
  Span span_;
};

PredictServiceImpl::PredictServiceImpl(PredictServiceOptions options, const ServedModel& model,
                                       PredictBatcher& batcher, Metrics& metrics)
    : options_(options),
      model_(model),
      batcher_(batcher),
      rpc_metrics_(metrics, "serve", kPredictServiceName),
      http_seconds_(metrics.AddHistogram("dslide_serve_http_seconds",
                                         "Time to answer POST /v1/predict, errors included.")) {}

grpc::ServerUnaryReactor* PredictServiceImpl::Predict(grpc::CallbackServerContext* context,
                                                      const v1::PredictRequest* request,
                                                      v1::PredictResponse* response) {
  auto* const call = new Call(rpc_metrics_.method("Predict"), context, *request);
  const ScopedTrace below(call->trace());
  Answer(
      // gRPC has the deadline by the wall clock.
      *request, absl::FromChrono(context->deadline()) - absl::Now(),
      [context] { return context->IsCancelled(); },
      [call, response](absl::StatusOr<v1::PredictResponse> answer) {
        const absl::Status status = answer.status();
        if (status.ok()) *response = *std::move(answer);
        call->End(status, *response);
      });
  return call;
}

grpc::ServerUnaryReactor* PredictServiceImpl::GetModel(grpc::CallbackServerContext* context,
                                                       const v1::GetModelRequest* request,
                                                       v1::GetModelResponse* response) {
  auto* const call = new Call(rpc_metrics_.method("GetModel"), context, *request);
  absl::StatusOr<v1::GetModelResponse> described = Describe();
  const absl::Status status = described.status();
  if (status.ok()) *response = *std::move(described);
  call->End(status, *response);
  return call;
}

void PredictServiceImpl::Answer(const v1::PredictRequest& request, absl::Duration patience,
                                std::function<bool()> cancelled, Done done) const {
  // Shared with the answer: names are those of the model that was asked.
  const std::shared_ptr<const OpenModel> model = model_.current();
  if (model == nullptr) return done(NotThereYet());
  absl::StatusOr<PreparedRequest> checked =
      PreparePrediction(request, *model, options_.hashed_by_default);
  if (!checked.ok()) return done(checked.status());
  auto prepared = std::make_shared<PreparedRequest>(*std::move(checked));  // with the answer
  if (prepared->queries.empty()) return done(ToPredictResponse(*prepared, {}, *model));
  RankJob job;
  job.queries = std::move(prepared->queries);
  job.options = prepared->options;
  job.deadline = batcher_.clock().Now() + std::min(patience, options_.request_timeout);
  job.cancelled = std::move(cancelled);
  job.trace = CurrentTrace();
  job.done = [model, prepared,
              done = std::move(done)](const absl::StatusOr<std::vector<Prediction>>& ranked) {
    if (!ranked.ok()) return done(ranked.status());
    done(ToPredictResponse(*prepared, *ranked, *model));
  };
  batcher_.Submit(std::move(job));
}

absl::StatusOr<v1::GetModelResponse> PredictServiceImpl::Describe() const {
  const std::shared_ptr<const OpenModel> model = model_.current();  // shared: see current()
  if (model == nullptr) return NotThereYet();
  v1::GetModelResponse described;
  described.set_model(model->model().spec.name);
  described.set_num_labels(model->num_labels());
  described.set_num_features(model->num_features());
  described.set_has_label_names(!model->model().labels.empty());
  described.set_has_feature_names(model->texts.ok());
  described.set_hidden_dim(model->hidden_dim());
  for (const v1::PredictMode mode : PredictModes(*model, options_.hashed_by_default)) {
    described.add_modes(mode);
  }
  described.set_default_mode(described.modes(0));
  described.set_max_queries(kMaxPredictQueries);
  described.set_max_top_k(kMaxPredictLabels);
  described.set_version(Version());
  return described;
}

absl::StatusOr<std::string> PredictServiceImpl::PredictJson(const HttpCall& call) const {
  v1::PredictRequest request;
  const auto parsed = google::protobuf::util::JsonStringToMessage(call.body, &request);
  if (!parsed.ok()) {
    return StatusWithReason(
        absl::StatusCode::kInvalidArgument, reason::kBadMessage,
        absl::StrCat("the body is no PredictRequest in JSON: ", std::string(parsed.message())));
  }
  ASSIGN_OR_RETURN(const absl::Duration timeout, TimeoutOf(call));
  absl::Notification ready;
  absl::StatusOr<v1::PredictResponse> answer;
  Answer(request, timeout, nullptr, [&](absl::StatusOr<v1::PredictResponse> got) {
    answer = std::move(got);
    ready.Notify();
  });
  ready.WaitForNotification();
  RETURN_IF_ERROR(answer.status());
  return JsonOf(*answer);
}

HttpReply PredictServiceImpl::Http(const HttpCall& call) const {
  const bool reads = call.method == "GET" || call.method == "HEAD";
  if (reads) {
    if (std::optional<HttpReply> page = PredictPage(call.path); page.has_value()) {
      return *std::move(page);
    }
    if (call.path == "/v1/model") {
      const absl::StatusOr<v1::GetModelResponse> described = Describe();
      if (described.ok()) return {.type = kJsonType, .body = JsonOf(*described)};
      return ErrorReply(described.status(), wire::RequestIdOrNew(call.header("X-Request-Id")));
    }
  }
  if (call.path == "/v1/predict" && call.method == "POST") {
    const absl::Duration start = SteadyClock().Now();
    const std::string request_id = wire::RequestIdOrNew(call.header("X-Request-Id"));
    Span span = Span::Begin("POST /v1/predict", SpanKind::kServer,
                            ParseTraceparent(call.header(kTraceparentKey)));
    span.SetAttribute("dslide.request_id", request_id);
    const ScopedTrace below(span.context());
    absl::StatusOr<std::string> json = PredictJson(call);
    span.End(json.status());
    HttpReply reply = json.ok() ? HttpReply{.type = kJsonType, .body = *std::move(json)}
                                : ErrorReply(json.status(), request_id);
    reply.headers.emplace_back("X-Request-Id", request_id);
    http_seconds_.Observe(absl::ToDoubleSeconds(SteadyClock().Now() - start));
    return reply;
  }
  if (call.path == "/v1/predict") {
    return {.code = 405, .body = "only POST\n", .headers = {{"Allow", "POST"}}};
  }
  return {.code = 404, .body = "try POST /v1/predict, GET /v1/model or /\n"};
}

}  // namespace dslide::cli
