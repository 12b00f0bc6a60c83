#include "core/net/tls/certificate_roles.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/system/log.h"

namespace dslide {
namespace {

constexpr size_t kMaxClusterName = 64;

}  // namespace

const char* RoleName(Role role) {
  switch (role) {
    case Role::kShard:
      return "shard";
    case Role::kCoordinator:
      return "coordinator";
    case Role::kTrainer:
      return "trainer";
    case Role::kOperator:
      return "operator";
    case Role::kReader:
      return "reader";
  }
  return "unknown";
}

std::string RoleUri(absl::string_view cluster, Role role) {
  return absl::StrCat("dslide://", cluster, "/", RoleName(role));
}

absl::Status CheckClusterName(absl::string_view cluster) {
  bool good = !cluster.empty() && cluster.size() <= kMaxClusterName;
  for (const char c : cluster) {
    good = good && (absl::ascii_islower(static_cast<unsigned char>(c)) ||
                    absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '-');
  }
  if (good) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the cluster name \"", EscapeForLog(cluster, 80), "\" is not [a-z0-9-]{1,64}"));
}

std::optional<Role> RoleOfUri(absl::string_view uri, absl::string_view cluster) {
  if (!absl::ConsumePrefix(&uri, "dslide://") || !absl::ConsumePrefix(&uri, cluster) ||
      !absl::ConsumePrefix(&uri, "/")) {
    return std::nullopt;
  }
  for (const Role role : kAllRoles) {
    if (uri == RoleName(role)) return role;
  }
  return std::nullopt;
}

}  // namespace dslide
