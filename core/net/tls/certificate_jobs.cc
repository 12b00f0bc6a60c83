#include "core/net/tls/certificate_jobs.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/net/tls/certificate_roles.h"

namespace dslide {
namespace {

constexpr absl::string_view kKind = "job/";

}  // namespace

std::string JobUri(absl::string_view cluster, absl::string_view job) {
  return absl::StrCat(RoleUri(cluster, Role::kTrainer), "/", kKind, job);
}

std::optional<absl::string_view> JobOfUri(absl::string_view uri, absl::string_view cluster) {
  if (!absl::ConsumePrefix(&uri, RoleUri(cluster, Role::kTrainer)) ||
      !absl::ConsumePrefix(&uri, "/")) {
    return std::nullopt;
  }
  if (!absl::ConsumePrefix(&uri, kKind)) return uri.substr(uri.size());
  return uri;
}

}  // namespace dslide
