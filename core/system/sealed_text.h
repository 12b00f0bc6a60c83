// Texts and bytes that end with their own CRC-32C, so that a file which was changed, cut or joined
// from two is told from one that was written.
//
//   text    its last line is "crc32c 01234567", the checksum of all before it in hexadecimal
//   bytes   their last four are the checksum of all before them, little-endian

#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace dslide {

// The line that seals `text`, with its newline.
std::string SealLine(absl::string_view text);

// `text`, which ends with a newline, and its seal.
std::string SealText(std::string text);
// What was sealed, within `sealed`; nothing when the last line is not the seal of what is before
// it.
std::optional<absl::string_view> UnsealText(absl::string_view sealed);

// The same of a text that ends without a newline: one is put behind it, which is not sealed.
std::string SealOpenText(std::string text);
std::optional<absl::string_view> UnsealOpenText(absl::string_view sealed);

std::string SealBytes(std::string bytes);
// What was sealed, within `sealed`; nothing when the last bytes are not its seal.
std::optional<absl::string_view> UnsealBytes(absl::string_view sealed);

}  // namespace dslide
