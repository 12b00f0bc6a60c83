#include "core/engine/data/archives/archive_format.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace dslide {
namespace {

constexpr size_t kTarMagicAt = 257;

struct Magic {
  absl::string_view bytes;
  ArchiveFormat format;
  absl::string_view name = "";
  absl::string_view remedy = "";
  size_t at = 0;
};

constexpr Magic kMagics[] = {
    {"\x1f\x8b", ArchiveFormat::kGzip},
    {{"\xfd\x37zXZ\0", 6}, ArchiveFormat::kXz},
    {"\x28\xb5\x2f\xfd", ArchiveFormat::kZstd},
    {"\x04\x22\x4d\x18", ArchiveFormat::kLz4},
    {"BZh", ArchiveFormat::kBzip2},
    {"PK\x03\x04", ArchiveFormat::kForeign, "a zip archive", "unpack it first (unzip)"},
    {"PK\x05\x06", ArchiveFormat::kForeign, "a zip archive", "unpack it first (unzip)"},
    {{"\x5d\0\0", 3}, ArchiveFormat::kForeign, "an .lzma file", "unpack it first (xz -d)"},
    {"LZIP", ArchiveFormat::kForeign, "an lzip file", "unpack it first (lzip -d)"},
    {"\x1f\x9d", ArchiveFormat::kForeign, "a .Z file", "unpack it first (gzip -d)"},
    {"7z\xbc\xaf\x27\x1c", ArchiveFormat::kForeign, "a 7z archive", "unpack it first (7z x)"},
    {"Rar!\x1a\x07", ArchiveFormat::kForeign, "a rar archive", "unpack it first"},
    {"\x02\x21\x4c\x18", ArchiveFormat::kForeign, "an lz4 file of the old kind",
     "unpack it first (lz4 -d)"},
    {{"\xff\x06\0\0sNaPpY", 10}, ArchiveFormat::kForeign, "a snappy file", "unpack it first"},
    {"ustar", ArchiveFormat::kForeign, "a tar archive", "unpack it first (tar -xf)", kTarMagicAt},
    {"PAR1", ArchiveFormat::kForeign, "a Parquet file", "write it as text first"},
    {"\x89HDF", ArchiveFormat::kForeign, "an HDF5 file", "write it as text first"},
    {"\x93NUMPY", ArchiveFormat::kForeign, "a numpy file", "write it as text first"},
    {"\xff\xfe", ArchiveFormat::kForeign, "text in UTF-16", "save it as UTF-8"},
    {"\xfe\xff", ArchiveFormat::kForeign, "text in UTF-16", "save it as UTF-8"},
};

// Whether a first block, or the end of an empty file, follows "BZh" and the digit of a block's
// size: a text may well begin with these three letters, or be no more than them.
bool HasBzip2Block(absl::string_view head) {
  const absl::string_view block = absl::ClippedSubstr(head, 4, 6);
  return block == "1AY&SY" || block == "\x17\x72\x45\x38\x50\x90";
}

const Magic* MagicOf(absl::string_view head) {
  for (const Magic& magic : kMagics) {
    if (head.size() < magic.at || !absl::StartsWith(head.substr(magic.at), magic.bytes)) continue;
    if (magic.format == ArchiveFormat::kBzip2 && !HasBzip2Block(head)) continue;
    return &magic;
  }
  return nullptr;
}

}  // namespace

ArchiveFormat ArchiveFormatOf(absl::string_view head) {
  const Magic* const magic = MagicOf(head);
  return magic == nullptr ? ArchiveFormat::kNone : magic->format;
}

absl::Status RefuseForeign(const std::string& path, absl::string_view head) {
  const Magic* const magic = MagicOf(head);
  if (magic == nullptr) return absl::OkStatus();
  if (magic->format != ArchiveFormat::kForeign) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " was packed twice: unpack it once before"));
  }
  return absl::InvalidArgumentError(absl::StrCat(path, " is ", magic->name, ": ", magic->remedy,
                                                 "; .gz, .xz, .zst, .lz4 and .bz2 are read"));
}

}  // namespace dslide
