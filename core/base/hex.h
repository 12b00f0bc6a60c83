// Bytes from hexadecimal digits; absl::BytesToHexString() is the other direction.

#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "core/base/ids.h"

namespace dslide {

// The bytes that two digits each of `hex` give, of either case; nothing when there is an odd number
// of characters or one that is no digit. Thread-safe.
std::optional<std::string> BytesFromHex(absl::string_view hex);

std::string ClientIdToHex(const ClientId& id);
// Nothing when it is not of 16 bytes.
std::optional<ClientId> ClientIdFromHex(absl::string_view hex);

}  // namespace dslide
