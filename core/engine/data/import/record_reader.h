// Files of other programs, row by row.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/engine/data/data_file.h"
#include "core/engine/data/import/import_source.h"
#include "core/engine/data/import/label_field.h"

namespace dslide {

// One row: texts that are to be cut, or features that have values already.
struct ImportRecord {
  std::vector<std::string> texts;
  std::vector<std::pair<std::string, float>> features;  // names differ
  std::vector<std::string> labels;                      // as they come; may repeat
};

// Reads one file from its beginning to its end. Not thread-safe.
class RecordReader {
 public:
  virtual ~RecordReader() = default;

  // Replaces *record by the next row; false when there is none. Blank lines are none.
  // Errors: InvalidArgument "file:line:column: found ..., expected ...", columns in bytes from 1.
  virtual absl::StatusOr<bool> Next(ImportRecord* record) = 0;
  // Until which byte of the unpacked file rows were read.
  virtual int64_t bytes_read() const = 0;
};

// The bytes of `file` behind a byte order mark. They outlive neither.
// Errors: InvalidArgument with the remedy for a file in UTF-16 or one with a NUL byte at its start.
absl::StatusOr<absl::string_view> TextOf(const DataFile& file);
// Errors: InvalidArgument with place and remedy when `row`, which begins at `line`, is not UTF-8 or
// holds a NUL.
absl::Status CheckCharacters(const std::string& path, int64_t line, absl::string_view row);

// One reader for each format. `file` and `labels` outlive it; `source` is valid.
// Errors: those of TextOf(); of CSV InvalidArgument when a column is not in the header.
absl::StatusOr<std::unique_ptr<RecordReader>> OpenRecords(const DataFile& file,
                                                          const ImportSource& source,
                                                          LabelFields* labels);
absl::StatusOr<std::unique_ptr<RecordReader>> OpenCsvRecords(const DataFile& file,
                                                             const ImportSource& source,
                                                             LabelFields* labels);
absl::StatusOr<std::unique_ptr<RecordReader>> OpenJsonRecords(const DataFile& file,
                                                              const ImportSource& source,
                                                              LabelFields* labels);
absl::StatusOr<std::unique_ptr<RecordReader>> OpenSvmlightRecords(const DataFile& file);
absl::StatusOr<std::unique_ptr<RecordReader>> OpenFastTextRecords(const DataFile& file,
                                                                  const ImportSource& source);

}  // namespace dslide
