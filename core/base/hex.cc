#include "core/base/hex.h"

#include <algorithm>

#include "absl/strings/escaping.h"

namespace dslide {
namespace {

// -1: not a digit.
int Digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::optional<std::string> BytesFromHex(absl::string_view hex) {
  if (hex.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  bytes.reserve(hex.size() / 2);
  for (size_t i = 0; i < hex.size(); i += 2) {
    const int high = Digit(hex[i]);
    const int low = Digit(hex[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(16 * high + low));
  }
  return bytes;
}

std::string ClientIdToHex(const ClientId& id) {
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(id.data()), id.size()));
}

std::optional<ClientId> ClientIdFromHex(absl::string_view hex) {
  ClientId id{};
  const std::optional<std::string> bytes = BytesFromHex(hex);
  if (!bytes.has_value() || bytes->size() != id.size()) return std::nullopt;
  std::copy(bytes->begin(), bytes->end(), id.begin());
  return id;
}

}  // namespace dslide
