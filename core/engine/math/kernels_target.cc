#include "core/engine/math/kernels_target.h"

#include <cstdint>
#include <cstdlib>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/engine/math/kernels.h"
#include "hwy/highway.h"

namespace dslide {
namespace {

constexpr char kMaxIsaVariable[] = "DSLIDE_MAX_ISA";

// The targets wider than the one of the given name, or -1 when there is no such name.
int64_t TargetsWiderThan(absl::string_view name) {
  // A lower bit is a wider target; the bits of other processor families are not in play here.
  if (name == "sse4") return HWY_SSE4 - 1;
  if (name == "avx2") return HWY_AVX2 - 1;
  if (name == "avx512") return HWY_AVX3 - 1;
  return -1;
}

absl::string_view MaxIsa() {
  const char* const value = std::getenv(kMaxIsaVariable);
  return value == nullptr ? absl::string_view() : absl::string_view(value);
}

}  // namespace

bool LimitTargets() {
  const absl::string_view name = MaxIsa();
  if (name.empty()) return false;
  const int64_t wider = TargetsWiderThan(name);
  if (wider < 0) return false;  // CheckKernelEnvironment() is where this is told
  hwy::DisableTargets(wider);
  return true;
}

absl::Status CheckKernelEnvironment() {
  const absl::string_view name = MaxIsa();
  if (name.empty() || TargetsWiderThan(name) >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(kMaxIsaVariable, " is \"", name, "\"; use sse4, avx2 or avx512, or unset it"));
}

absl::string_view KernelTarget() {
  LimitTargetsOnce();
  const int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
  const int64_t best = targets == 0 ? HWY_STATIC_TARGET : (targets & -targets);
  return hwy::TargetName(best);
}

}  // namespace dslide
