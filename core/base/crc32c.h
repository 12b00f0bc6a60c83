// CRC-32C (Castagnoli), the checksum of files and of records.

#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace dslide {

// The CRC of `bytes` continued from `crc` (0 to start). Uses the CPU's instruction where it has
// one.
uint32_t ExtendCrc32c(uint32_t crc, absl::string_view bytes);

}  // namespace dslide
