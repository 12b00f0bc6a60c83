#include "core/wire/steps/step_request.h"

#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <deque>
#include <utility>
#include <vector>

#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"
#include "core/wire/arrays/array_codec.h"
#include "core/wire/envelope_codec.h"
#include "core/wire/steps/step_codec.h"

namespace dslide::wire {

absl::Status ParseStepRequest(absl::Span<const absl::string_view> message, v1::StepRequest* out) {
  std::deque<google::protobuf::io::ArrayInputStream> pieces;
  std::vector<google::protobuf::io::ZeroCopyInputStream*> streams;
  for (const absl::string_view piece : message) {
    pieces.emplace_back(piece.data(), static_cast<int>(piece.size()));
    streams.push_back(&pieces.back());
  }
  google::protobuf::io::ConcatenatingInputStream whole(streams.data(),
                                                       static_cast<int>(streams.size()));
  if (out->ParseFromZeroCopyStream(&whole)) return absl::OkStatus();
  out->Clear();
  return Refusal(reason::kBadMessage, "StepRequest",
                 "is cut or garbled: its bytes are no such message");
}

absl::StatusOr<Command> DecodeStepMutation(const v1::StepRequest& request) {
  ASSIGN_OR_RETURN(Envelope envelope, DecodeEnvelope(request.envelope()));
  absl::StatusOr<StepCommand> step = DecodeStep(request, envelope);
  if (step.ok()) return *std::move(step);
  return RefusedCommand{.envelope = std::move(envelope), .refusal = step.status()};
}

}  // namespace dslide::wire
