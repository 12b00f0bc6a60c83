#include "core/system/format_version.h"

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/system/sealed_text.h"

namespace dslide {
namespace {

std::string Words(FormatRange reads) {
  return reads.oldest == reads.newest
             ? absl::StrCat("format ", reads.newest)
             : absl::StrCat("formats ", reads.oldest, " to ", reads.newest);
}

}  // namespace

absl::Status CheckFormat(absl::string_view what, int64_t version, FormatRange reads) {
  if (version >= reads.oldest && version <= reads.newest) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      what, " has format ", version, ", this version reads ", Words(reads),
      ": use the version that wrote it", version > reads.newest ? " or a later one" : ""));
}

std::optional<int64_t> VersionBehind(absl::string_view prefix, absl::string_view word) {
  int64_t version = 0;
  if (!absl::ConsumePrefix(&word, prefix) ||
      !std::all_of(word.begin(), word.end(), absl::ascii_isdigit) ||
      !absl::SimpleAtoi(word, &version)) {
    return std::nullopt;
  }
  return version;
}

absl::Status CheckSealedFormat(absl::string_view what, absl::string_view text,
                               absl::string_view word, FormatRange reads) {
  const auto version = VersionBehind(word, text.substr(0, text.find('\n')));
  if (!version.has_value() || !UnsealText(text).has_value()) return absl::OkStatus();
  return CheckFormat(what, *version, reads);
}

}  // namespace dslide
