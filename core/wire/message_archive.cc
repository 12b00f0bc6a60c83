#include "core/wire/message_archive.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "core/base/reason.h"

namespace dslide::wire {

MessageReader::MessageReader(const google::protobuf::Message& message, std::string path,
                             absl::Status* status)
    : message_(message),
      reflection_(*message.GetReflection()),
      path_(std::move(path)),
      status_(status) {}

void MessageReader::Forbid(const char* name, absl::string_view reason) {
  if (Find(name) == nullptr) return;
  *status_ = StatusWithReason(absl::StatusCode::kInvalidArgument, reason::kBadModel,
                              absl::StrCat(PathOf(name), ": ", reason));
}

std::string MessageReader::PathOf(absl::string_view name) const {
  return path_.empty() ? std::string(name) : absl::StrCat(path_, ".", name);
}

const google::protobuf::FieldDescriptor* MessageReader::Find(const char* name) const {
  if (!status_->ok()) return nullptr;
  const auto* const field = message_.GetDescriptor()->FindFieldByName(name);
  const bool is_there = field->is_repeated() ? reflection_.FieldSize(message_, field) > 0
                                             : reflection_.HasField(message_, field);
  return is_there ? field : nullptr;
}

void MessageReader::RefuseWord(const char* name, absl::string_view expected,
                               absl::string_view found) {
  constexpr size_t kQuoted = 60;  // of a word that is none
  *status_ = StatusWithReason(absl::StatusCode::kInvalidArgument, reason::kBadEnum,
                              absl::StrCat(PathOf(name), ": expected ", expected, ", found \"",
                                           absl::CHexEscape(found.substr(0, kQuoted)), "\""));
}

MessageWriter::MessageWriter(google::protobuf::Message* message)
    : message_(*message), reflection_(*message->GetReflection()) {}

const google::protobuf::FieldDescriptor* MessageWriter::FieldOf(const char* name) const {
  return message_.GetDescriptor()->FindFieldByName(name);
}

}  // namespace dslide::wire
