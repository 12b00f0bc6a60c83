// Fields one after the other in a string, for files: numbers little-endian, sizes as u64.

#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/ids.h"

namespace dslide {

// Not thread-safe.
class ByteWriter {
 public:
  template <typename T>
  void Number(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  // Without their size.
  void Raw(absl::string_view value) { bytes_.append(value.data(), value.size()); }
  void Bytes(absl::string_view value) {
    Number<uint64_t>(value.size());
    Raw(value);
  }
  template <typename T>
  void Array(const std::vector<T>& values) {
    static_assert(std::is_trivially_copyable_v<T>);
    Bytes({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
  }

  const std::string& bytes() const { return bytes_; }
  std::string Take() && { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads what a ByteWriter wrote. After a field that is not there, everything reads as empty and
// ok() is false. Not thread-safe.
class ByteReader {
 public:
  explicit ByteReader(absl::string_view bytes) : rest_(bytes) {}

  template <typename T>
  T Number() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    if (const absl::string_view field = Raw(sizeof(value)); !field.empty()) {
      std::memcpy(&value, field.data(), sizeof(value));
    }
    return value;
  }
  // Points into the bytes.
  absl::string_view Raw(uint64_t size) {
    if (!ok_ || size > rest_.size()) {
      ok_ = false;
      return {};
    }
    const absl::string_view field = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return field;
  }
  // What was not read yet.
  absl::string_view Rest() const { return ok_ ? rest_ : absl::string_view(); }
  absl::string_view Bytes() { return Raw(Number<uint64_t>()); }
  template <typename T>
  std::vector<T> Array() {
    const absl::string_view field = Bytes();
    if (field.size() % sizeof(T) != 0) ok_ = false;
    std::vector<T> values(ok_ ? field.size() / sizeof(T) : 0, T{});
    if (!values.empty()) std::memcpy(values.data(), field.data(), field.size());
    return values;
  }
  // A number of things that take at least one byte each.
  uint64_t Count() {
    const auto count = Number<uint64_t>();
    if (count > rest_.size()) ok_ = false;
    return ok_ ? count : 0;
  }

  bool ok() const { return ok_; }
  // Everything was read.
  bool AtEnd() const { return ok_ && rest_.empty(); }

 private:
  absl::string_view rest_;
  bool ok_ = true;
};

}  // namespace dslide
