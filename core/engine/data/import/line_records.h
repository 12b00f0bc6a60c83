// Readers of files whose rows are lines.

#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/engine/data/import/record_reader.h"
#include "core/engine/data/name_list.h"

namespace dslide {

// Gives each line that is not blank to Read(), after CheckCharacters().
class LineRecords : public RecordReader {
 public:
  absl::StatusOr<bool> Next(ImportRecord* record) final;
  int64_t bytes_read() const final { return bytes_read_; }

 protected:
  // `text`, of `file`, outlives the reader.
  LineRecords(const DataFile& file, absl::string_view text)
      : path_(file.path()), lines_(text), end_(text.data() + text.size()), size_(text.size()) {}

  // Fills the empty *record. Errors: as Next().
  virtual absl::Status Read(absl::string_view line, ImportRecord* record) = 0;
  // Called behind the last line. Errors: as Next().
  virtual absl::Status CheckEnd() const { return absl::OkStatus(); }
  // Of the line that is read. `at` points into it.
  absl::Status ErrorAt(absl::string_view line, absl::string_view at, const std::string& found,
                       const std::string& expected) const;
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  LineReader lines_;
  const char* end_;
  size_t size_;
  int64_t bytes_read_ = 0;
};

}  // namespace dslide
