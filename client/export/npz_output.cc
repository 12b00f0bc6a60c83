#include "client/export/npz_output.h"

#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/export/positioned_file.h"
#include "core/base/bfloat16.h"
#include "core/base/byte_fields.h"
#include "core/base/status_macros.h"

namespace dslide {
namespace {

// Signatures and versions of zip (PKWARE APPNOTE 6.3, sections 4.3 and 4.5).
constexpr uint32_t kLocalMark = 0x04034b50;
constexpr uint32_t kCentralMark = 0x02014b50;
constexpr uint32_t kEnd64Mark = 0x06064b50;
constexpr uint32_t kLocator64Mark = 0x07064b50;
constexpr uint32_t kEndMark = 0x06054b50;
constexpr uint16_t kVersion64 = 45;
constexpr uint16_t kExtra64 = 1;
constexpr uint16_t kFirstDay1980 = 0x21;  // a date there must be: equal models, equal files
constexpr uint32_t kIn64 = 0xffffffff;
constexpr int64_t kCrcOffset = 14;  // in a local header
constexpr size_t kNpyAlignment = 64;

// The CRC-32 of zip.
class ZipCrc {
 public:
  ZipCrc() {
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) * 0xedb88320u);
      table_[i] = value;
    }
  }
  uint32_t Extend(uint32_t crc, absl::string_view bytes) const {
    crc = ~crc;
    for (const char byte : bytes) {
      crc = (crc >> 8) ^ table_[(crc ^ static_cast<unsigned char>(byte)) & 0xff];
    }
    return ~crc;
  }

 private:
  std::array<uint32_t, 256> table_;
};

const char* NpyType(TensorType type) {
  switch (type) {
    case TensorType::kU8:
      return "|u1";
    case TensorType::kU32:
      return "<u4";
    case TensorType::kI64:
      return "<i8";
    default:
      return "<f4";
  }
}

std::string NpyHeader(const TensorInfo& tensor) {
  std::string shape;
  for (const int64_t side : tensor.shape) absl::StrAppend(&shape, side, ", ");
  std::string text = absl::StrCat("{'descr': '", NpyType(tensor.type),
                                  "', 'fortran_order': False, 'shape': (", shape, "), }");
  constexpr size_t kBefore = 10;
  const size_t used = kBefore + text.size() + 1;
  text.append((kNpyAlignment - used % kNpyAlignment) % kNpyAlignment, ' ');
  text.push_back('\n');
  ByteWriter out;
  out.Raw(absl::string_view("\x93NUMPY\x01\x00", 8));
  out.Number(static_cast<uint16_t>(text.size()));
  out.Raw(text);
  return std::move(out).Take();
}

class NpzOutput final : public TensorOutput {
 public:
  explicit NpzOutput(PositionedFile file) : file_(std::move(file)) {}

  absl::Status Begin(const std::vector<TensorInfo>& tensors) {
    for (TensorInfo tensor : tensors) {
      Entry entry;
      entry.shortened = tensor.type == TensorType::kBf16;
      if (entry.shortened) tensor.type = TensorType::kF32;
      entry.name = tensor.name + ".npy";
      const std::string npy = NpyHeader(tensor);
      entry.bytes = static_cast<int64_t>(npy.size()) + tensor.bytes();
      entry.header = end_;
      const std::string local = LocalHeader(entry);
      RETURN_IF_ERROR(file_.WriteAt(end_, local));
      entry.next = end_ + static_cast<int64_t>(local.size());
      end_ = entry.next + entry.bytes;
      entry.end = end_;
      entries_.push_back(std::move(entry));
      RETURN_IF_ERROR(Write(entries_.back(), npy));
    }
    return absl::OkStatus();
  }

  absl::Status Append(size_t tensor, absl::string_view bytes) override {
    Entry& entry = entries_[tensor];
    if (!entry.shortened) return Write(entry, bytes);
    widened_.resize(bytes.size() / sizeof(BFloat16));
    for (size_t i = 0; i < widened_.size(); ++i) {
      BFloat16 value;
      std::memcpy(&value, bytes.data() + i * sizeof(value), sizeof(value));
      widened_[i] = ToFloat(value);
    }
    return Write(entry,
                 {reinterpret_cast<const char*>(widened_.data()), widened_.size() * sizeof(float)});
  }

  absl::Status Commit() override {
    ByteWriter central;
    for (const Entry& entry : entries_) {
      if (entry.next != entry.end) {
        return absl::InternalError(absl::StrCat("array ", entry.name, " is not complete"));
      }
      ByteWriter crc;
      crc.Number(entry.crc);
      RETURN_IF_ERROR(file_.WriteAt(entry.header + kCrcOffset, std::move(crc).Take()));
      AddCentral(entry, central);
    }
    const std::string directory = std::move(central).Take();
    RETURN_IF_ERROR(file_.WriteAt(end_, directory));
    const auto size = static_cast<int64_t>(directory.size());
    RETURN_IF_ERROR(file_.WriteAt(end_ + size, EndRecords(size)));
    return file_.Commit();
  }

 private:
  struct Entry {
    std::string name;
    bool shortened = false;
    int64_t header = 0;
    int64_t next = 0;
    int64_t end = 0;
    int64_t bytes = 0;
    uint32_t crc = 0;
  };

  absl::Status Write(Entry& entry, absl::string_view bytes) {
    if (static_cast<int64_t>(bytes.size()) > entry.end - entry.next) {
      return absl::InternalError(absl::StrCat("array ", entry.name, " got too many bytes"));
    }
    RETURN_IF_ERROR(file_.WriteAt(entry.next, bytes));
    entry.next += static_cast<int64_t>(bytes.size());
    entry.crc = crc_.Extend(entry.crc, bytes);
    return absl::OkStatus();
  }

  // Version, flags, method "stored", time, date, CRC and the sizes that stand in the extra field.
  static void AddCommon(const Entry& entry, uint16_t extra_bytes, ByteWriter& out) {
    out.Number(kVersion64);
    out.Number(uint16_t{0});
    out.Number(uint16_t{0});
    out.Number(uint16_t{0});
    out.Number(kFirstDay1980);
    out.Number(entry.crc);
    out.Number(kIn64);
    out.Number(kIn64);
    out.Number(static_cast<uint16_t>(entry.name.size()));
    out.Number(extra_bytes);
  }

  static std::string LocalHeader(const Entry& entry) {
    ByteWriter out;
    out.Number(kLocalMark);
    AddCommon(entry, 20, out);
    out.Raw(entry.name);
    out.Number(kExtra64);
    out.Number(uint16_t{16});
    out.Number(entry.bytes);
    out.Number(entry.bytes);
    return std::move(out).Take();
  }

  static void AddCentral(const Entry& entry, ByteWriter& out) {
    out.Number(kCentralMark);
    out.Number(kVersion64);
    AddCommon(entry, 28, out);
    out.Number(uint16_t{0});  // comment, disk, attributes
    out.Number(uint16_t{0});
    out.Number(uint16_t{0});
    out.Number(uint32_t{0});
    out.Number(kIn64);
    out.Raw(entry.name);
    out.Number(kExtra64);
    out.Number(uint16_t{24});
    out.Number(entry.bytes);
    out.Number(entry.bytes);
    out.Number(entry.header);
  }

  std::string EndRecords(int64_t directory_bytes) const {
    const auto entries = static_cast<uint64_t>(entries_.size());
    ByteWriter out;
    out.Number(kEnd64Mark);
    out.Number(uint64_t{44});
    out.Number(kVersion64);
    out.Number(kVersion64);
    out.Number(uint32_t{0});
    out.Number(uint32_t{0});
    out.Number(entries);
    out.Number(entries);
    out.Number(directory_bytes);
    out.Number(end_);
    out.Number(kLocator64Mark);
    out.Number(uint32_t{0});
    out.Number(end_ + directory_bytes);
    out.Number(uint32_t{1});
    out.Number(kEndMark);
    out.Number(uint16_t{0});
    out.Number(uint16_t{0});
    out.Number(static_cast<uint16_t>(entries));
    out.Number(static_cast<uint16_t>(entries));
    out.Number(kIn64);
    out.Number(kIn64);
    out.Number(uint16_t{0});
    return std::move(out).Take();
  }

  PositionedFile file_;
  const ZipCrc crc_;
  std::vector<Entry> entries_;
  std::vector<float> widened_;
  int64_t end_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TensorOutput>> CreateNpz(const std::string& path, bool overwrite,
                                                        const std::vector<TensorInfo>& tensors) {
  RETURN_IF_ERROR(CheckReplaceable(path, overwrite));
  if (tensors.size() > std::numeric_limits<uint16_t>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the model has ", tensors.size(), " tensors, a .npz holds 65,535 of them"));
  }
  int64_t total = 0;
  for (const TensorInfo& tensor : tensors) {
    total += tensor.bytes() * (tensor.type == TensorType::kBf16 ? 2 : 1);
  }
  RETURN_IF_ERROR(CheckRoomFor(path, total));
  ASSIGN_OR_RETURN(PositionedFile file, PositionedFile::Create(path));
  auto output = std::make_unique<NpzOutput>(std::move(file));
  RETURN_IF_ERROR(output->Begin(tensors));
  return output;
}

}  // namespace dslide
