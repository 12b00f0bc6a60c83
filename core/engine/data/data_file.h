// A read-only file as one span of bytes, whether it is plain or compressed.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dslide {

struct DataFileOptions {
  // Where compressed files are unpacked; "": $TMPDIR, or /tmp. The unpacked copy has no name and
  // vanishes with the process.
  std::string temp_dir;
  // Called now and then while a compressed file is unpacked, with the bytes read and the size of
  // the compressed file. Not called for plain files. May be empty.
  std::function<void(int64_t done_bytes, int64_t total_bytes)> progress;
};

// A mapping of a file's content. Plain files are mapped; .gz, .xz, .zst, .lz4 and .bz2 - told by
// their first bytes, not by their names - are unpacked to an unlinked temporary file which is
// mapped. So files larger than memory work in both forms. A byte order mark of UTF-8 at the start
// is no part of the content.
//
// Whoever truncates a mapped file while it is read ends the process (SIGBUS): that is mmap's price.
//
// Thread safety: immutable. Movable, not copyable.
class DataFile {
 public:
  DataFile() = default;
  ~DataFile();
  DataFile(DataFile&& other) noexcept;
  DataFile& operator=(DataFile&& other) noexcept;

  // Errors: NotFound (no such file), PermissionDenied, InvalidArgument (a directory, a device, an
  // archive of another kind), DataLoss (truncated or corrupt archive), ResourceExhausted (no space
  // to unpack). All name the path; the last names the temporary directory and how to choose
  // another.
  static absl::StatusOr<DataFile> Open(const std::string& path,
                                       const DataFileOptions& options = {});
  // Maps an open regular file as it is; `path` names it in messages. The descriptor stays the
  // caller's and may be closed. Errors: system errors.
  static absl::StatusOr<DataFile> FromDescriptor(int fd, const std::string& path);

  const std::string& path() const { return path_; }
  bool compressed() const { return compressed_; }
  int64_t size() const { return size_; }

  // The (unpacked) bytes; valid as long as this object.
  absl::string_view bytes() const { return absl::string_view(data_, static_cast<size_t>(size_)); }

 private:
  std::string path_;
  const char* data_ = nullptr;
  int64_t size_ = 0;
  void* mapped_ = nullptr;  // data_ is within
  size_t mapped_bytes_ = 0;
  bool compressed_ = false;
};

}  // namespace dslide
