// Strict reading and writing of JSON objects: archives for the list of fields that a struct has
// once for all of its forms (model_spec_visitor.h).

#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/spec/enum_words.h"
#include "nlohmann/json.hpp"

namespace dslide {

// Keeps the order in which fields were written.
using Json = nlohmann::ordered_json;

// Parses a document. Errors: InvalidArgument with line and column; also for a key that is twice in
// one object.
absl::Status ParseJson(absl::string_view text, Json& document);

// Reads the fields of one object; absent fields keep their value. The first error wins: all later
// calls of all readers that share `status` do nothing.
class JsonReader {
 public:
  // path   : of the object in errors: "" for the document, "tables[1].head", ...
  // object : outlives the reader; an error if it is no object.
  JsonReader(const Json& object, std::string path, absl::Status* status);

  void Field(const char* name, std::string& value);
  void Field(const char* name, bool& value);
  void Field(const char* name, double& value);
  void Field(const char* name, int64_t& value);
  void Field(const char* name, uint64_t& value);
  template <typename T>
  void LaterField(const char* name, T& value) {
    Field(name, value);
  }

  template <typename Enum>
  void Word(const char* name, Enum& value, const EnumWords<Enum>& words) {
    const Json* found = Find(name);
    if (found == nullptr) return;
    for (const auto& [word, meaning] : words) {
      if (*found == word) {
        value = meaning;
        return;
      }
    }
    Fail(PathOf(name), OneOf(words), *found);
  }
  template <typename Enum>
  void LaterWord(const char* name, Enum& value, const EnumWords<Enum>& words) {
    Word(name, value, words);
  }

  template <typename T>
  void Object(const char* name, T& value) {
    const Json* found = Find(name);
    if (found == nullptr) return;
    JsonReader nested(*found, PathOf(name), status_);
    VisitFields(nested, value);
    nested.Finish();
  }

  template <typename T>
  void Objects(const char* name, std::vector<T>& values) {
    const Json* found = Find(name);
    if (found == nullptr) return;
    if (!found->is_array()) return Fail(PathOf(name), "an array of objects", *found);
    values.assign(found->size(), T());
    for (size_t i = 0; i < values.size(); ++i) {
      JsonReader nested((*found)[i], absl::StrCat(PathOf(name), "[", i, "]"), status_);
      VisitFields(nested, values[i]);
      nested.Finish();
    }
  }

  // An error when the field is there.
  void Forbid(const char* name, absl::string_view reason);

  // An error, with the nearest known name, when the object has a field that no call asked for.
  void Finish();

 private:
  std::string PathOf(absl::string_view name) const;
  // Null when the field is absent or an error was found before.
  const Json* Find(const char* name);
  void Fail(absl::string_view path, absl::string_view expected, const Json& found);

  const Json& object_;
  const std::string path_;
  absl::Status* const status_;
  std::set<std::string> known_;
};

// Writes every field, but for later ones that are 0 or the default. Never fails.
class JsonWriter {
 public:
  explicit JsonWriter(Json* object) : object_(*object) { object_ = Json::object(); }

  template <typename T>
  void Field(const char* name, const T& value) {
    object_[name] = value;
  }
  template <typename T>
  void LaterField(const char* name, const T& value) {
    if (value != T()) Field(name, value);
  }
  template <typename Enum>
  void Word(const char* name, Enum value, const EnumWords<Enum>& words) {
    for (const auto& [word, meaning] : words) {
      if (meaning == value) object_[name] = word;
    }
  }
  template <typename Enum>
  void LaterWord(const char* name, Enum value, const EnumWords<Enum>& words) {
    if (value != Enum()) Word(name, value, words);
  }
  template <typename T>
  void Object(const char* name, T& value) {
    JsonWriter nested(&object_[name]);
    VisitFields(nested, value);
  }
  template <typename T>
  void Objects(const char* name, std::vector<T>& values) {
    Json& array = object_[name] = Json::array();
    for (T& value : values) {
      JsonWriter nested(&array.emplace_back());
      VisitFields(nested, value);
    }
  }
  void Forbid(const char* name, absl::string_view reason) {}

 private:
  Json& object_;
};

// The fields of a struct that has VisitFields() as a JSON object. By value, since the visitors fill
// or read through one reference type.
template <typename T>
Json FieldsToJson(T fields) {
  Json object;
  JsonWriter writer(&object);
  VisitFields(writer, fields);
  return object;
}

// The way back; errors go to *status as JsonReader's do. path: as of JsonReader.
template <typename T>
void FieldsFromJson(const Json& object, std::string path, absl::Status* status, T& fields) {
  JsonReader reader(object, std::move(path), status);
  VisitFields(reader, fields);
  reader.Finish();
}

inline Json NumberOrNull(const std::optional<double>& value) {
  return value.has_value() ? Json(*value) : Json(nullptr);
}

}  // namespace dslide
