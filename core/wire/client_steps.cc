#include "core/wire/client_steps.h"

#include "core/base/status_macros.h"
#include "core/wire/envelope_codec.h"

namespace dslide::wire {

absl::StatusOr<std::vector<ClientStep>> DecodeClientSteps(const ClientStepsField& steps) {
  std::vector<ClientStep> decoded;
  decoded.reserve(steps.size());
  for (const v1::ClientStep& step : steps) {
    ASSIGN_OR_RETURN(const ClientId client, DecodeClientId("client_id", step.client_id()));
    decoded.push_back({client, step.step()});
  }
  return decoded;
}

void EncodeClientSteps(absl::Span<const ClientStep> steps, ClientStepsField* out) {
  for (const ClientStep& step : steps) {
    v1::ClientStep* const added = out->Add();
    added->set_client_id(EncodeClientId(step.client));
    added->set_step(step.step);
  }
}

}  // namespace dslide::wire
