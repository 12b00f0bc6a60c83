#include "client/objects/object_url.h"

#include <cctype>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace dslide {
namespace {

constexpr absl::string_view kForms =
    "expected s3://BUCKET/KEY, gs://BUCKET/KEY, https://HOST/PATH or http://HOST/PATH";

absl::Status Malformed(absl::string_view shown, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(shown, ": ", why, "; ", kForms));
}

size_t SchemeLength(absl::string_view path) {
  size_t length = 0;
  while (length < path.size() && absl::ascii_isalnum(static_cast<unsigned char>(path[length]))) {
    ++length;
  }
  return absl::StartsWith(path.substr(length), "://") ? length : 0;
}

bool HasControl(absl::string_view text) {
  for (const char c : text) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) return true;
  }
  return false;
}

}  // namespace

bool IsObjectUrl(absl::string_view path) { return SchemeLength(path) > 0; }

absl::StatusOr<ObjectUrl> ParseObjectUrl(absl::string_view text) {
  const size_t scheme_length = SchemeLength(text);
  const std::string scheme = absl::AsciiStrToLower(text.substr(0, scheme_length));
  ObjectUrl url;
  const bool is_http = scheme == "http" || scheme == "https";
  // Keys of s3 and gs may hold any character.
  const size_t stop = is_http ? text.find_first_of("?#") : absl::string_view::npos;
  url.has_query = stop != absl::string_view::npos;
  url.shown = std::string(text.substr(0, stop));
  if (!is_http && scheme != "s3" && scheme != "gs") {
    return Malformed(url.shown, absl::StrCat("unknown scheme \"", scheme, "\""));
  }
  const absl::string_view rest = absl::string_view(url.shown).substr(scheme_length + 3);
  const size_t slash = rest.find('/');
  const absl::string_view place = rest.substr(0, slash);
  if (absl::StrContains(place, '@')) {
    return absl::InvalidArgumentError(
        absl::StrCat(scheme, "://", place.substr(place.rfind('@') + 1), rest.substr(place.size()),
                     ": a password in a URL ends up in logs; put it into ~/.netrc"));
  }
  if (place.empty()) return Malformed(url.shown, is_http ? "no host" : "no bucket");
  if (HasControl(text)) return Malformed(scheme, "a control character in the URL");
  const size_t last = url.shown.rfind('/');
  url.folder = url.shown.substr(0, last + 1);
  url.name = url.shown.substr(last + 1);
  if (slash == absl::string_view::npos || url.name.empty() || url.name == "." || url.name == "..") {
    return Malformed(url.shown, "no name of an object at its end");
  }
  if (is_http) {
    url.address = std::string(text.substr(0, text.find('#')));
    return url;
  }
  url.kind = scheme == "s3" ? ObjectStoreKind::kS3 : ObjectStoreKind::kGcs;
  url.bucket = std::string(place);
  url.key = std::string(rest.substr(slash + 1));
  return url;
}

ObjectUrl ObjectBeside(const ObjectUrl& url, absl::string_view name) {
  ObjectUrl other = url;
  other.name = std::string(name);
  other.shown = absl::StrCat(url.folder, name);
  if (url.kind == ObjectStoreKind::kHttp) other.address = other.shown;
  other.key = absl::StrCat(url.key.substr(0, url.key.rfind('/') + 1), name);
  return other;
}

std::string EscapeObjectKey(absl::string_view key) {
  std::string escaped;
  for (const char c : key) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
        absl::StrContains("-._~/", absl::string_view(&c, 1))) {
      escaped.push_back(c);
    } else {
      absl::StrAppendFormat(&escaped, "%%%02X", static_cast<unsigned char>(c));
    }
  }
  return escaped;
}

}  // namespace dslide
