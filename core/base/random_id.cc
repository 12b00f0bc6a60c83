#include "core/base/random_id.h"

#include <random>

namespace dslide {

std::array<uint8_t, 16> RandomId() {
  std::random_device entropy;
  std::array<uint8_t, 16> id;
  for (uint8_t& byte : id) byte = static_cast<uint8_t>(entropy());
  return id;
}

}  // namespace dslide
