// The wire form of protobuf, as far as an ONNX file needs it (onnx.proto of ONNX 1.12, IR version
// 8).

#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace dslide {

// Fields one after the other. Not thread-safe.
class OnnxMessage {
 public:
  OnnxMessage& Number(int field, int64_t value) {
    Varint(static_cast<uint64_t>(field) << 3);
    Varint(static_cast<uint64_t>(value));
    return *this;
  }
  // A string, bytes or a message.
  OnnxMessage& Bytes(int field, absl::string_view value) {
    BytesHead(field, static_cast<int64_t>(value.size()));
    bytes_.append(value.data(), value.size());
    return *this;
  }
  OnnxMessage& Message(int field, const OnnxMessage& value) { return Bytes(field, value.bytes_); }
  // What stands before so many bytes.
  OnnxMessage& BytesHead(int field, int64_t size) {
    constexpr uint64_t kLengthDelimited = 2;
    Varint(static_cast<uint64_t>(field) << 3 | kLengthDelimited);
    Varint(static_cast<uint64_t>(size));
    return *this;
  }

  const std::string& bytes() const { return bytes_; }
  int64_t size() const { return static_cast<int64_t>(bytes_.size()); }

 private:
  void Varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(value | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }

  std::string bytes_;
};

}  // namespace dslide
