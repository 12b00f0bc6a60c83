#include "core/engine/data/archives/unpack.h"

#include <archive.h>
#include <archive_entry.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace dslide {
namespace {

constexpr size_t kBlockBytes = 1 << 20;
constexpr int64_t kProgressBytes = 16 << 20;
// zlib: the largest window, with the header and the checksums of gzip.
constexpr int kGzipWindow = 15 + 16;

using Sink = absl::FunctionRef<absl::Status(absl::string_view)>;
using OnProgress = std::function<void(int64_t, int64_t)>;

absl::Status Corrupt(const std::string& path, absl::string_view why) {
  return absl::DataLossError(absl::StrCat("cannot unpack ", path, ": ", why,
                                          " (truncated or corrupt; fetch the file again)"));
}

class Reporter {
 public:
  Reporter(const OnProgress& progress, int64_t total) : progress_(progress), total_(total) {}
  void Done(int64_t bytes) {
    if (!progress_ || bytes - reported_ < kProgressBytes) return;
    reported_ = bytes;
    progress_(bytes, total_);
  }
  void End() {
    if (progress_) progress_(total_, total_);
  }

 private:
  const OnProgress& progress_;
  const int64_t total_;
  int64_t reported_ = 0;
};

// The members of a .gz one after the other. libarchive reads them, too, but neither looks at their
// checksums nor says that a second one is cut.
class GzipReader {
 public:
  explicit GzipReader(const PackedFile& file) : file_(file), in_(kBlockBytes), out_(kBlockBytes) {}
  ~GzipReader() { inflateEnd(&stream_); }
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;

  absl::Status Run(Reporter& reporter, Sink sink) {
    if (inflateInit2(&stream_, kGzipWindow) != Z_OK) {
      return absl::ResourceExhaustedError("no memory to unpack a file");
    }
    while (true) {
      RETURN_IF_ERROR(Fill());
      if (stream_.avail_in == 0) break;
      if (ended_) {
        ASSIGN_OR_RETURN(const bool member, NextMember());
        if (!member) break;
      }
      RETURN_IF_ERROR(Inflate(sink));
      reporter.Done(read_);
    }
    return ended_ ? absl::OkStatus() : Corrupt(file_.path, "it ends within a gzip member");
  }

 private:
  absl::Status Fill() {
    if (stream_.avail_in > 0) return absl::OkStatus();
    ssize_t got;
    do {
      got = read(file_.fd, in_.data(), in_.size());
    } while (got < 0 && errno == EINTR);
    if (got < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", file_.path));
    read_ += got;
    stream_.next_in = in_.data();
    stream_.avail_in = static_cast<uInt>(got);
    return absl::OkStatus();
  }

  // Whether there is one; else what follows are zeros, with which tapes are filled up.
  absl::StatusOr<bool> NextMember() {
    if (*stream_.next_in != 0) {
      ended_ = false;
      inflateReset(&stream_);
      return true;
    }
    while (stream_.avail_in > 0) {
      for (; stream_.avail_in > 0; --stream_.avail_in) {
        if (*stream_.next_in++ != 0) return Corrupt(file_.path, kGarbage);
      }
      RETURN_IF_ERROR(Fill());
    }
    return false;
  }

  // As far as the input that is here leads.
  absl::Status Inflate(Sink sink) {
    do {
      stream_.next_out = out_.data();
      stream_.avail_out = static_cast<uInt>(out_.size());
      const int result = inflate(&stream_, Z_NO_FLUSH);
      if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
        const char* why = stream_.msg == nullptr ? "it is no gzip" : stream_.msg;
        return Corrupt(file_.path, members_ > 0 && stream_.total_out == 0 ? kGarbage : why);
      }
      ended_ = result == Z_STREAM_END;
      RETURN_IF_ERROR(
          sink({reinterpret_cast<const char*>(out_.data()), out_.size() - stream_.avail_out}));
    } while (!ended_ && stream_.avail_out == 0);
    members_ += ended_ ? 1 : 0;
    return absl::OkStatus();
  }

  static constexpr char kGarbage[] = "what follows the last gzip member is none";

  const PackedFile& file_;
  std::vector<unsigned char> in_;
  std::vector<unsigned char> out_;
  z_stream stream_ = {};
  int64_t read_ = 0;
  int64_t members_ = 0;
  bool ended_ = false;
};

struct ArchiveDeleter {
  void operator()(archive* reader) const { archive_read_free(reader); }
};

absl::Status ArchiveError(archive* reader, const std::string& path) {
  const char* why = archive_error_string(reader);
  return Corrupt(path, why == nullptr ? "unknown error" : why);
}

absl::Status UnpackByLibrary(const PackedFile& file, Reporter& reporter, Sink sink) {
  std::unique_ptr<archive, ArchiveDeleter> reader(archive_read_new());
  if (reader == nullptr) return absl::ResourceExhaustedError("no memory to unpack a file");
  archive_read_support_filter_xz(reader.get());
  archive_read_support_filter_zstd(reader.get());
  archive_read_support_filter_lz4(reader.get());
  archive_read_support_filter_bzip2(reader.get());
  archive_read_support_format_raw(reader.get());
  archive_read_support_format_empty(reader.get());
  if (archive_read_open_fd(reader.get(), file.fd, kBlockBytes) != ARCHIVE_OK) {
    return ArchiveError(reader.get(), file.path);
  }
  archive_entry* entry = nullptr;
  const int opened = archive_read_next_header(reader.get(), &entry);
  if (opened == ARCHIVE_EOF) return absl::OkStatus();  // an archive of nothing
  if (opened != ARCHIVE_OK) return ArchiveError(reader.get(), file.path);
  std::vector<char> block(kBlockBytes);
  while (true) {
    const la_ssize_t got = archive_read_data(reader.get(), block.data(), block.size());
    if (got < 0) return ArchiveError(reader.get(), file.path);
    if (got == 0) break;
    RETURN_IF_ERROR(sink({block.data(), static_cast<size_t>(got)}));
    reporter.Done(archive_filter_bytes(reader.get(), -1));
  }
  // What is no member of its kind ends a file for the library, whatever it is.
  const int64_t used = archive_filter_bytes(reader.get(), -1);
  if (used >= file.bytes) return absl::OkStatus();
  return Corrupt(file.path,
                 absl::StrCat("the last ", file.bytes - used, " bytes are no part of an archive"));
}

}  // namespace

absl::Status Unpack(const PackedFile& file, const OnProgress& progress, Sink sink) {
  Reporter reporter(progress, file.bytes);
  if (file.format == ArchiveFormat::kGzip) {
    RETURN_IF_ERROR(GzipReader(file).Run(reporter, sink));
  } else {
    RETURN_IF_ERROR(UnpackByLibrary(file, reporter, sink));
  }
  reporter.End();
  return absl::OkStatus();
}

}  // namespace dslide
