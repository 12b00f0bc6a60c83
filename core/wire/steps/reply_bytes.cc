#include "core/wire/steps/reply_bytes.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "core/wire/steps/step_answer_codec.h"
#include "dslide/v1/shard.pb.h"

namespace dslide::wire {
namespace {

constexpr char kStep = 's';     // bytes of v1.StepResponse, matrices in f32
constexpr char kScatter = 'c';  // bytes of v1.ScatterResponse

}  // namespace

std::string EncodeReply(const Reply& reply) {
  if (const auto* scatter = std::get_if<ScatterReply>(&reply.body)) {
    v1::ScatterResponse response;
    response.set_applied_steps(scatter->applied_steps);
    return absl::StrCat(std::string(1, kScatter), response.SerializeAsString());
  }
  v1::StepResponse response;
  EncodeStepResponse(/*sequence=*/0, /*generation=*/0, reply, ActivationType::kF32, &response);
  return absl::StrCat(std::string(1, kStep), response.SerializeAsString());
}

absl::StatusOr<Reply> DecodeReply(absl::string_view bytes) {
  const char kind = bytes.empty() ? '\0' : bytes.front();
  if (!bytes.empty()) bytes.remove_prefix(1);
  const auto size = static_cast<int>(bytes.size());
  Reply reply;
  if (kind == kScatter) {
    v1::ScatterResponse response;
    if (!response.ParseFromArray(bytes.data(), size)) {
      return absl::DataLossError("a kept answer of a scatter is garbled");
    }
    reply.body = ScatterReply{.applied_steps = response.applied_steps()};
    return reply;
  }
  v1::StepResponse response;
  if (kind != kStep || !response.ParseFromArray(bytes.data(), size)) {
    return absl::DataLossError("a kept answer is garbled");
  }
  absl::StatusOr<StepAnswer> answer = DecodeStepResponse(response);
  if (!answer.ok()) return absl::DataLossError(answer.status().message());
  return std::move(answer->reply);
}

}  // namespace dslide::wire
