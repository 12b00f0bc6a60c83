#include "core/spec/json_archive.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"

namespace dslide {
namespace {

// Single-character insertions, deletions and replacements between two words.
int64_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<int64_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int64_t>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    int64_t diagonal = row[0];
    row[0] = static_cast<int64_t>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int64_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row.back();
}

// The known name that a mistyped one is likely to mean; empty when none is near.
std::string NearestName(absl::string_view name, const std::set<std::string>& known) {
  int64_t least = 4;  // further away is no typing error
  std::string nearest;
  for (const std::string& candidate : known) {
    const int64_t distance = EditDistance(name, candidate);
    if (distance < least && distance < static_cast<int64_t>(candidate.size())) {
      least = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

// A value as an error quotes it.
std::string Quote(const Json& value) {
  const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() <= 60 ? text : absl::StrCat(text.substr(0, 57), "...");
}

// Finds keys that are twice in one object: the parser itself would keep the last silently.
class DuplicateKeys {
 public:
  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) open_.emplace_back();
    if (event == Json::parse_event_t::object_end) open_.pop_back();
    if (event == Json::parse_event_t::key && first_.empty()) {
      const std::string key = parsed.get<std::string>();
      if (!open_.back().insert(key).second) first_ = key;
    }
    return true;
  }
  const std::string& first() const { return first_; }

 private:
  std::vector<std::set<std::string>> open_;
  std::string first_;
};

}  // namespace

absl::Status ParseJson(absl::string_view text, Json& document) {
  DuplicateKeys duplicates;
  // The library reports where a document is broken by exception only; none leaves this function.
  try {
    document = Json::parse(
        text.data(), text.data() + text.size(),
        [&](int depth, Json::parse_event_t event, Json& parsed) {
          return duplicates(depth, event, parsed);
        },
        /*allow_exceptions=*/true, /*ignore_comments=*/false);
  } catch (const Json::exception& error) {
    absl::string_view message = error.what();
    if (const auto end = message.find("] "); end != message.npos) message.remove_prefix(end + 2);
    return absl::InvalidArgumentError(message);
  }
  if (!duplicates.first().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the field \"", duplicates.first(), "\" is twice in one object"));
  }
  return absl::OkStatus();
}

JsonReader::JsonReader(const Json& object, std::string path, absl::Status* status)
    : object_(object), path_(std::move(path)), status_(status) {
  if (!object.is_object()) Fail(path_.empty() ? "the document" : path_, "an object", object);
}

void JsonReader::Field(const char* name, std::string& value) {
  const Json* found = Find(name);
  if (found == nullptr) return;
  if (!found->is_string()) return Fail(PathOf(name), "a string", *found);
  value = found->get<std::string>();
}

void JsonReader::Field(const char* name, bool& value) {
  const Json* found = Find(name);
  if (found == nullptr) return;
  if (!found->is_boolean()) return Fail(PathOf(name), "true or false", *found);
  value = found->get<bool>();
}

void JsonReader::Field(const char* name, double& value) {
  const Json* found = Find(name);
  if (found == nullptr) return;
  if (!found->is_number()) return Fail(PathOf(name), "a number", *found);
  value = found->get<double>();
}

void JsonReader::Field(const char* name, int64_t& value) {
  const Json* found = Find(name);
  if (found == nullptr) return;
  const bool fits =
      found->is_number_integer() && (!found->is_number_unsigned() ||
                                     found->get<uint64_t>() <= std::numeric_limits<int64_t>::max());
  if (!fits) return Fail(PathOf(name), "an integer of 64 bits", *found);
  value = found->get<int64_t>();
}

void JsonReader::Field(const char* name, uint64_t& value) {
  const Json* found = Find(name);
  if (found == nullptr) return;
  if (!found->is_number_unsigned()) {
    return Fail(PathOf(name), "an integer in [0, 18446744073709551615]", *found);
  }
  value = found->get<uint64_t>();
}

void JsonReader::Forbid(const char* name, absl::string_view reason) {
  if (!status_->ok() || object_.find(name) == object_.end()) return;
  *status_ = absl::InvalidArgumentError(absl::StrCat(PathOf(name), ": ", reason));
}

void JsonReader::Finish() {
  if (!status_->ok()) return;
  for (const auto& [key, value] : object_.items()) {
    if (known_.count(key) > 0) continue;
    const std::string nearest = NearestName(key, known_);
    const std::string remedy = nearest.empty()
                                   ? absl::StrCat("known fields: ", absl::StrJoin(known_, ", "))
                                   : absl::StrCat("did you mean \"", nearest, "\"?");
    *status_ = absl::InvalidArgumentError(absl::StrCat(PathOf(key), ": unknown field; ", remedy));
    return;
  }
}

std::string JsonReader::PathOf(absl::string_view name) const {
  return path_.empty() ? std::string(name) : absl::StrCat(path_, ".", name);
}

const Json* JsonReader::Find(const char* name) {
  known_.insert(name);
  if (!status_->ok()) return nullptr;
  const auto found = object_.find(name);
  return found == object_.end() ? nullptr : &*found;
}

void JsonReader::Fail(absl::string_view path, absl::string_view expected, const Json& found) {
  if (!status_->ok()) return;
  *status_ = absl::InvalidArgumentError(
      absl::StrCat(path, ": expected ", expected, ", found ", Quote(found)));
}

}  // namespace dslide
