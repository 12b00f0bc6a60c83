#include "core/system/sealed_text.h"

#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "core/base/crc32c.h"

namespace dslide {
namespace {

// "crc32c 01234567\n"
constexpr size_t kSealLine = 7 + 8 + 1;

}  // namespace

std::string SealLine(absl::string_view text) {
  return absl::StrFormat("crc32c %08x\n", ExtendCrc32c(0, text));
}

std::string SealText(std::string text) {
  text += SealLine(text);
  return text;
}

std::optional<absl::string_view> UnsealText(absl::string_view sealed) {
  if (sealed.size() < kSealLine) return std::nullopt;
  const absl::string_view text = sealed.substr(0, sealed.size() - kSealLine);
  if (sealed.substr(text.size()) != SealLine(text)) return std::nullopt;
  return text;
}

std::string SealOpenText(std::string text) {
  const std::string line = SealLine(text);
  text += '\n';
  text += line;
  return text;
}

std::optional<absl::string_view> UnsealOpenText(absl::string_view sealed) {
  if (sealed.size() < 1 + kSealLine) return std::nullopt;
  const absl::string_view text = sealed.substr(0, sealed.size() - kSealLine - 1);
  if (sealed[text.size()] != '\n' || sealed.substr(text.size() + 1) != SealLine(text)) {
    return std::nullopt;
  }
  return text;
}

std::string SealBytes(std::string bytes) {
  const uint32_t crc = ExtendCrc32c(0, bytes);
  bytes.append(reinterpret_cast<const char*>(&crc), sizeof(crc));
  return bytes;
}

std::optional<absl::string_view> UnsealBytes(absl::string_view sealed) {
  uint32_t crc = 0;
  if (sealed.size() < sizeof(crc)) return std::nullopt;
  const absl::string_view bytes = sealed.substr(0, sealed.size() - sizeof(crc));
  std::memcpy(&crc, sealed.data() + bytes.size(), sizeof(crc));
  if (crc != ExtendCrc32c(0, bytes)) return std::nullopt;
  return bytes;
}

}  // namespace dslide
