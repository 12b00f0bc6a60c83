#include "core/wire/steps/step_size.h"

#include "core/wire/steps/step_answer_codec.h"

namespace dslide::wire {
namespace {

constexpr int64_t kPrefixBytes = 5;

}  // namespace

int64_t StepRequestBytes(const StepCommand& command, StepFormat format) {
  v1::StepRequest request;
  EncodeStepRequest(command, format, &request);
  return kPrefixBytes + static_cast<int64_t>(request.ByteSizeLong());
}

int64_t StepResponseBytes(uint64_t sequence, const Reply& reply, ActivationType type) {
  v1::StepResponse response;
  constexpr uint64_t kGeneration = 1;
  EncodeStepResponse(sequence, kGeneration, reply, type, &response);
  return kPrefixBytes + static_cast<int64_t>(response.ByteSizeLong());
}

}  // namespace dslide::wire
