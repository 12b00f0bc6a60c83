#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "core/system/log.h"
#include "services/common/config.h"

namespace dslide {
namespace {

bool IsKey(absl::string_view key) {
  if (key.empty()) return false;
  for (const char c : key) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_' && c != '.') {
      return false;
    }
  }
  return true;
}

// "lease.timeout" and "lease_timeout" are "lease-timeout".
std::string Canonical(absl::string_view key) {
  return absl::StrReplaceAll(key, {{".", "-"}, {"_", "-"}});
}

// Takes the text of a value without its quotes and escapes; false when it is malformed.
bool TakeValue(absl::string_view text, std::string* value) {
  value->clear();
  if (!absl::StartsWith(text, "\"")) {
    text = text.substr(0, text.find('#'));
    *value = std::string(absl::StripAsciiWhitespace(text));
    return value->find('"') == std::string::npos;
  }
  size_t i = 1;
  for (; i < text.size() && text[i] != '"'; ++i) {
    if (text[i] == '\\') {
      ++i;
      if (i == text.size() || (text[i] != '"' && text[i] != '\\')) return false;
    }
    value->push_back(text[i]);
  }
  if (i == text.size()) return false;  // no closing quote
  const absl::string_view rest = absl::StripAsciiWhitespace(text.substr(i + 1));
  return rest.empty() || rest[0] == '#';
}

}  // namespace

absl::StatusOr<std::vector<ConfigEntry>> ParseConfigFile(absl::string_view text,
                                                         absl::string_view origin) {
  std::vector<ConfigEntry> entries;
  std::string section;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#') continue;
    const auto error = [&](absl::string_view problem) {
      return absl::InvalidArgumentError(
          absl::StrCat(origin, ":", number, ": ", problem, ": ", EscapeForLog(line, 80)));
    };
    if (line[0] == '[') {
      const absl::string_view name = absl::StripAsciiWhitespace(line.substr(1, line.size() - 2));
      if (!absl::EndsWith(line, "]") || !IsKey(name)) return error("expected [section]");
      section = absl::StrCat(Canonical(name), "-");
      continue;
    }
    const size_t equals = line.find('=');
    if (equals == absl::string_view::npos) return error("expected key = value");
    const absl::string_view key = absl::StripAsciiWhitespace(line.substr(0, equals));
    if (!IsKey(key)) return error("malformed key");
    ConfigEntry entry{absl::StrCat(section, Canonical(key)), "", number};
    if (!TakeValue(absl::StripAsciiWhitespace(line.substr(equals + 1)), &entry.value)) {
      return error("malformed value; write a bare word or \"text in quotes\"");
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace dslide
