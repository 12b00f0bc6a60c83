// How much a catalogue holds, beside its database: RocksDB takes some damage to its own lists of
// files for a torn end and starts with less.
//
//   <data dir>/catalog-summary   checksums of all records: as they are, and before the last change
//
// It is written before the database is, so that one of both fits whenever the process dies.

#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"

namespace dslide::coordinator {

// Not thread-safe.
class CatalogSummary {
 public:
  using Records = std::map<std::string, std::string>;  // key -> value

  explicit CatalogSummary(const std::string& data_dir);

  // Whether these are the records that the file speaks of; without a file (of an earlier version)
  // any are. Errors: DataLoss naming the remedy; FailedPrecondition when another version has
  // written it; Unavailable.
  absl::Status Check(const Records& records);

  // The same without writing anything. A missing file is fine.
  static absl::Status Compare(const std::string& data_dir, const Records& records);

  // Before a change: `records` as they will be. Errors: Unavailable; the change is not to be made.
  absl::Status Announce(const Records& records);
  // The change was made.
  void Confirm() { present_ = announced_; }

 private:
  std::string path_;
  std::string present_;    // line of the records as they are
  std::string announced_;  // and as they will be
};

}  // namespace dslide::coordinator
