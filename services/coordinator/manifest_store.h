// The manifests of the committed cluster checkpoints:
//
//   <data dir>/checkpoints/MANIFEST-<epoch of 20 digits>
//
//   <data dir>/checkpoints/LINEAGE      how often the cluster was taken back to one
//
// A manifest appears under its name by one rename, which commits the checkpoint. There is no other
// state: whoever lists the directory knows all.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/coordinator/manifest.h"

namespace dslide::coordinator {

// Thread safety: one caller at a time.
class ManifestStore {
 public:
  // The one on the disk. Errors: Unavailable with the system's reason; DataLoss when LINEAGE is
  // damaged.
  static absl::StatusOr<std::unique_ptr<ManifestStore>> Open(const std::string& data_dir);
  virtual ~ManifestStore() = default;

  // Epochs of committed checkpoints, the newest first.
  virtual std::vector<uint64_t> List() const = 0;
  // Errors: NotFound UNKNOWN_CHECKPOINT; DataLoss naming the file.
  virtual absl::StatusOr<Manifest> Read(uint64_t epoch) const = 0;
  // Durable when it returns. Errors: Unavailable; it is not committed then.
  virtual absl::Status Commit(const Manifest& manifest) = 0;
  // Fine when there is none.
  virtual absl::Status Remove(uint64_t epoch) = 0;

  // The number of the last CommitLineage(); 0 before the first.
  virtual uint64_t Lineage() const = 0;
  virtual absl::Status CommitLineage(uint64_t lineage) = 0;
};

}  // namespace dslide::coordinator
