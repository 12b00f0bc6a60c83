// Reading and writing of protobuf messages by reflection: archives for the list of fields that a
// struct has once for all of its forms (core/spec/model_spec_visitor.h).
//
// The message has every field that is visited, under its name and with its type; a word is a
// string.

#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/protocol/reason_words.h"
#include "core/spec/enum_words.h"

namespace dslide::wire {

// Reads the fields of one message; absent fields keep their value. The first error wins: all later
// calls of all readers that share `status` do nothing. Errors have reason words, and the texts of
// the JSON form.
class MessageReader {
 public:
  // message : outlives the reader.
  // path    : of the message in errors: "" for the outermost, "tables[1].head", ...
  MessageReader(const google::protobuf::Message& message, std::string path, absl::Status* status);

  template <typename T>
  void Field(const char* name, T& value) {
    const google::protobuf::FieldDescriptor* const field = Find(name);
    if (field == nullptr) return;
    if constexpr (std::is_same_v<T, std::string>) {
      value = reflection_.GetString(message_, field);
    } else if constexpr (std::is_same_v<T, bool>) {
      value = reflection_.GetBool(message_, field);
    } else if constexpr (std::is_same_v<T, double>) {
      value = reflection_.GetDouble(message_, field);
    } else if constexpr (std::is_same_v<T, uint64_t>) {
      value = reflection_.GetUInt64(message_, field);
    } else {
      value = reflection_.GetInt64(message_, field);
    }
  }
  template <typename T>
  void LaterField(const char* name, T& value) {
    Field(name, value);
  }

  template <typename Enum>
  void Word(const char* name, Enum& value, const EnumWords<Enum>& words) {
    const google::protobuf::FieldDescriptor* const field = Find(name);
    if (field == nullptr) return;
    const std::string found = reflection_.GetString(message_, field);
    for (const auto& [word, meaning] : words) {
      if (found == word) {
        value = meaning;
        return;
      }
    }
    RefuseWord(name, OneOf(words), found);
  }
  template <typename Enum>
  void LaterWord(const char* name, Enum& value, const EnumWords<Enum>& words) {
    Word(name, value, words);
  }

  template <typename T>
  void Object(const char* name, T& value) {
    const google::protobuf::FieldDescriptor* const field = Find(name);
    if (field == nullptr) return;
    MessageReader nested(reflection_.GetMessage(message_, field), PathOf(name), status_);
    VisitFields(nested, value);
  }

  template <typename T>
  void Objects(const char* name, std::vector<T>& values) {
    const google::protobuf::FieldDescriptor* const field = Find(name);
    if (field == nullptr) return;
    values.assign(reflection_.FieldSize(message_, field), T());
    for (size_t i = 0; i < values.size(); ++i) {
      MessageReader nested(reflection_.GetRepeatedMessage(message_, field, static_cast<int>(i)),
                           absl::StrCat(PathOf(name), "[", i, "]"), status_);
      VisitFields(nested, values[i]);
    }
  }

  // An error when the field is there.
  void Forbid(const char* name, absl::string_view reason);

 private:
  std::string PathOf(absl::string_view name) const;
  // Null when the field is absent or an error was found before.
  const google::protobuf::FieldDescriptor* Find(const char* name) const;
  void RefuseWord(const char* name, absl::string_view expected, absl::string_view found);

  const google::protobuf::Message& message_;
  const google::protobuf::Reflection& reflection_;
  const std::string path_;
  absl::Status* const status_;
};

// Writes every field. Never fails.
class MessageWriter {
 public:
  // message : empty; outlives the writer.
  explicit MessageWriter(google::protobuf::Message* message);

  template <typename T>
  void Field(const char* name, const T& value) {
    const google::protobuf::FieldDescriptor* const field = FieldOf(name);
    if constexpr (std::is_same_v<T, std::string>) {
      reflection_.SetString(&message_, field, value);
    } else if constexpr (std::is_same_v<T, bool>) {
      reflection_.SetBool(&message_, field, value);
    } else if constexpr (std::is_same_v<T, double>) {
      reflection_.SetDouble(&message_, field, value);
    } else if constexpr (std::is_same_v<T, uint64_t>) {
      reflection_.SetUInt64(&message_, field, value);
    } else {
      reflection_.SetInt64(&message_, field, value);
    }
  }
  // Readers skip what they do not know: nothing is left out for them.
  template <typename T>
  void LaterField(const char* name, const T& value) {
    Field(name, value);
  }
  template <typename Enum>
  void Word(const char* name, Enum value, const EnumWords<Enum>& words) {
    for (const auto& [word, meaning] : words) {
      if (meaning == value) Field(name, std::string(word));
    }
  }
  template <typename Enum>
  void LaterWord(const char* name, Enum value, const EnumWords<Enum>& words) {
    Word(name, value, words);
  }
  template <typename T>
  void Object(const char* name, T& value) {
    MessageWriter nested(reflection_.MutableMessage(&message_, FieldOf(name)));
    VisitFields(nested, value);
  }
  template <typename T>
  void Objects(const char* name, std::vector<T>& values) {
    for (T& value : values) {
      MessageWriter nested(reflection_.AddMessage(&message_, FieldOf(name)));
      VisitFields(nested, value);
    }
  }
  void Forbid(const char* name, absl::string_view reason) {}

 private:
  const google::protobuf::FieldDescriptor* FieldOf(const char* name) const;

  google::protobuf::Message& message_;
  const google::protobuf::Reflection& reflection_;
};

}  // namespace dslide::wire
