// Who may call what: the one table of methods and roles.

#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/net/tls/certificate_roles.h"

namespace dslide {

// Some of the roles.
class RoleSet {
 public:
  constexpr RoleSet() = default;
  constexpr RoleSet(std::initializer_list<Role> roles) {
    for (const Role role : roles) Add(role);
  }
  constexpr void Add(Role role) { bits_ |= 1u << static_cast<unsigned>(role); }
  constexpr bool Has(Role role) const { return (bits_ >> static_cast<unsigned>(role) & 1u) != 0; }
  constexpr bool Intersects(RoleSet other) const { return (bits_ & other.bits_) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  // "trainer", "reader or trainer", "none".
  std::string ToString() const;

 private:
  unsigned bits_ = 0;
};

struct MethodRoles {
  // As on the wire: "/dslide.v1.ShardService/Gather".
  const char* method;
  RoleSet roles;
};

// Every method that a server may offer. What is not in it is nobody's.
absl::Span<const MethodRoles> RoleTable();

// Errors: PermissionDenied naming the roles and the method.
absl::Status CheckRoles(RoleSet held, absl::string_view method);

}  // namespace dslide
