#include "client/cli/conformance/forwarded_call.h"

#include <chrono>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/wire/request_id.h"

namespace dslide::cli {
namespace {

// The id that the client has sent; null without one.
const grpc::string_ref* RequestIdOfCall(const grpc::ServerContext& context) {
  const auto found = context.client_metadata().find(wire::kRequestIdKey);
  return found == context.client_metadata().end() ? nullptr : &found->second;
}

}  // namespace

void CheckCall(const grpc::ServerContext& context, absl::string_view call, DeadlineRule rule,
               Verdicts& verdicts) {
  verdicts.Saw(Chapter::kConnecting);
  if (rule == DeadlineRule::kNeeded &&
      context.deadline() == std::chrono::system_clock::time_point::max()) {
    verdicts.Add({.chapter = Chapter::kConnecting,
                  .call = std::string(call),
                  .where = "",
                  .field = "the deadline",
                  .found = "absent",
                  .expected = "one for every call: without it a server that hangs hangs its client",
                  .section = "connecting"});
  }
  const grpc::string_ref* const id = RequestIdOfCall(context);
  if (id == nullptr || wire::IsRequestId({id->data(), id->size()})) return;
  verdicts.Add({.chapter = Chapter::kConnecting,
                .call = std::string(call),
                .where = "",
                .field = "x-request-id",
                .found = absl::StrCat("\"", absl::string_view(id->data(), id->size()), "\""),
                .expected = "1 to 64 visible ASCII characters, or absent",
                .section = "request-ids"});
}

std::unique_ptr<grpc::ClientContext> ContextBehind(const grpc::ServerContext& context) {
  std::unique_ptr<grpc::ClientContext> behind = grpc::ClientContext::FromServerContext(context);
  if (const grpc::string_ref* const id = RequestIdOfCall(context); id != nullptr) {
    behind->AddMetadata(wire::kRequestIdKey, std::string(id->data(), id->size()));
  }
  return behind;
}

}  // namespace dslide::cli
