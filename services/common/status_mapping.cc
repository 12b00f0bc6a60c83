#include "services/common/status_mapping.h"

#include "core/wire/status_details.h"

namespace dslide {

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      wire::ErrorMessageForWire(status.message()),
                      wire::EncodeStatusDetails(status));
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  absl::Status converted(static_cast<absl::StatusCode>(status.error_code()),
                         status.error_message());
  wire::DecodeStatusDetails(status.error_details(), converted);
  return converted;
}

}  // namespace dslide
