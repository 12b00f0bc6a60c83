#include "services/common/admin_address.h"

#include "absl/status/statusor.h"
#include "core/system/listen_address.h"

namespace dslide {
namespace {

bool IsEveryInterface(const ListenAddress& address) {
  return address.host.empty() || address.host == "0.0.0.0" || address.host == "::";
}

}  // namespace

std::string AdminAddressForOthers(absl::string_view admin, absl::string_view advertise) {
  const absl::StatusOr<ListenAddress> page = ParseListenAddress(admin);
  const absl::StatusOr<ListenAddress> server = ParseListenAddress(advertise);
  if (!page.ok() || !server.ok() || page->is_unix) return std::string();
  if (IsEveryInterface(*page)) {
    if (server->is_unix || IsEveryInterface(*server)) return std::string();
    ListenAddress reached = *page;
    reached.host = server->host;
    return reached.ToString();
  }
  if (IsLocalOnly(*page) && !IsLocalOnly(*server)) return std::string();
  return page->ToString();
}

}  // namespace dslide
