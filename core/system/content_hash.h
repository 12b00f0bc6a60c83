// A short proof that two machines read the same data.

#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace dslide {

// Mixes the size of `bytes` and a sample of them - both ends and blocks spread evenly, at most some
// 400 KB - into `hash`. The same on every machine.
uint64_t HashContentSample(uint64_t hash, absl::string_view bytes);

// Mixes all of `bytes` into `hash`.
uint64_t HashContent(uint64_t hash, absl::string_view bytes);

}  // namespace dslide
