#include "services/common/status_mapping.h"

#include <string>

#include "core/wire/request_id.h"
#include "core/wire/status_details.h"

namespace dslide {

grpc::Status ToGrpcStatus(const absl::Status& status, absl::string_view request_id) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      wire::ErrorMessageForWire(status.message()),
                      wire::EncodeStatusDetails(status, request_id));
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  absl::Status converted(static_cast<absl::StatusCode>(status.error_code()),
                         status.error_message());
  const std::string request_id = wire::DecodeStatusDetails(status.error_details(), converted);
  return request_id.empty() ? converted : wire::NameRequest(converted, request_id);
}

}  // namespace dslide
