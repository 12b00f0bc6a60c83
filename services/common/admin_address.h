// The admin page's address as the peers of a server reach it.

#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace dslide {

// `admin`: where the page is served, "host:port" or empty; `advertise`: where the peers reach the
// server's RPCs. A page on every interface has the host of `advertise`. Empty when the peers cannot
// reach the page: there is none, or it is for this machine only and the RPCs are not.
std::string AdminAddressForOthers(absl::string_view admin, absl::string_view advertise);

}  // namespace dslide
