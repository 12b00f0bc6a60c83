#include "core/base/units.h"

#include <cmath>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace dslide {
namespace {

struct Unit {
  const char* name;
  int64_t bytes;
};

constexpr Unit kUnits[] = {
    {"TiB", int64_t{1} << 40},
    {"GiB", int64_t{1} << 30},
    {"MiB", int64_t{1} << 20},
    {"KiB", int64_t{1} << 10},
    {"TB", 1'000'000'000'000LL},
    {"GB", 1'000'000'000LL},
    {"MB", 1'000'000LL},
    {"kB", 1'000LL},
    {"B", 1},
};

}  // namespace

absl::StatusOr<int64_t> ParseByteSize(absl::string_view text) {
  const auto malformed = [text] {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is not a size; write for example 4096, 64KiB, 64MiB or 2GiB"));
  };
  absl::string_view number = absl::StripAsciiWhitespace(text);
  int64_t unit = 1;
  const size_t digits_end = number.find_last_of("0123456789");
  if (digits_end == absl::string_view::npos) return malformed();
  const absl::string_view suffix = absl::StripAsciiWhitespace(number.substr(digits_end + 1));
  number = number.substr(0, digits_end + 1);
  if (!suffix.empty()) {
    unit = 0;
    for (const Unit& known : kUnits) {
      if (suffix == known.name) unit = known.bytes;
    }
    if (unit == 0) return malformed();
  }
  for (const char c : number) {
    if (!absl::ascii_isdigit(static_cast<unsigned char>(c)) && c != '.') return malformed();
  }
  int64_t whole = 0;
  if (absl::SimpleAtoi(number, &whole)) {
    int64_t bytes = 0;
    if (__builtin_mul_overflow(whole, unit, &bytes)) return malformed();
    return bytes;
  }
  double fraction = 0.0;
  if (!absl::SimpleAtod(number, &fraction)) return malformed();
  const double bytes = fraction * static_cast<double>(unit);
  if (bytes != std::floor(bytes) || bytes >= 9.0e18) return malformed();
  return static_cast<int64_t>(bytes);
}

std::string FormatByteSize(int64_t bytes) {
  for (const Unit& unit : kUnits) {
    if (unit.bytes >= 1024 && unit.bytes % 1024 == 0 && bytes != 0 && bytes % unit.bytes == 0) {
      return absl::StrCat(bytes / unit.bytes, unit.name);
    }
  }
  return absl::StrCat(bytes);
}

absl::StatusOr<absl::Duration> ParseDuration(absl::string_view text) {
  absl::Duration duration;
  if (!absl::ParseDuration(absl::StripAsciiWhitespace(text), &duration) ||
      duration < absl::ZeroDuration() || duration == absl::InfiniteDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", text, "\" is not a duration; write for example 250ms, 30s, 5m or 1h30m"));
  }
  return duration;
}

}  // namespace dslide
