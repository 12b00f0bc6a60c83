// Roles in a cluster, as URI names of certificates: dslide://<cluster>/<role>.

#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace dslide {

// What the holder of a certificate is. What each may do: services/common/server/roles.h.
enum class Role { kShard, kCoordinator, kTrainer, kOperator, kReader };

inline constexpr Role kAllRoles[] = {Role::kShard, Role::kCoordinator, Role::kTrainer,
                                     Role::kOperator, Role::kReader};

const char* RoleName(Role role);

// The URI that gives its holder the role: "dslide://dslide/trainer".
std::string RoleUri(absl::string_view cluster, Role role);

// A cluster's name as it stands in URIs. Errors: InvalidArgument unless [a-z0-9-]{1,64}.
absl::Status CheckClusterName(absl::string_view cluster);

// The role that a URI of a certificate gives in `cluster`; nothing for any other URI.
std::optional<Role> RoleOfUri(absl::string_view uri, absl::string_view cluster);

}  // namespace dslide
