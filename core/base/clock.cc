#include "core/base/clock.h"

#include <chrono>

namespace dslide {
namespace {

class ChronoSteadyClock final : public Clock {
 public:
  absl::Duration Now() const override {
    return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
  }
};

}  // namespace

const Clock& SteadyClock() {
  static const ChronoSteadyClock* const clock = new ChronoSteadyClock;
  return *clock;
}

}  // namespace dslide
