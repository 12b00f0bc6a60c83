// The manifests of the committed cluster checkpoints:
//
//   <data dir>/checkpoints/MANIFEST-<epoch of 20 digits>
//
//   <data dir>/checkpoints/DAMAGED-<epoch>   what a verification found wrong with it
//   <data dir>/checkpoints/LINEAGE           how often the cluster was taken back to one
//   <data dir>/checkpoints/RESTORING         while that is being done (restore_mark.h)
//
// A manifest appears under its name by one rename, which commits the checkpoint. There is no other
// state: whoever lists the directory knows all.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/coordinator/manifest.h"
#include "services/coordinator/restore_mark.h"

namespace dslide::coordinator {

// Thread safety: one caller at a time.
class ManifestStore {
 public:
  // Errors: Unavailable with the system's reason; DataLoss when LINEAGE or RESTORING is
  // damaged.
  static absl::StatusOr<std::unique_ptr<ManifestStore>> Open(const std::string& data_dir);

  // The same of a directory that is there; makes nothing.
  static absl::StatusOr<std::unique_ptr<ManifestStore>> OpenExisting(const std::string& data_dir);

  // Epochs of committed checkpoints, the newest first.
  std::vector<uint64_t> List() const;
  // Errors: NotFound UNKNOWN_CHECKPOINT; DataLoss naming the file.
  absl::StatusOr<Manifest> Read(uint64_t epoch) const;
  // Durable when it returns. Errors: Unavailable; it is not committed then.
  absl::Status Commit(const Manifest& manifest);
  // Fine when there is none. Its mark goes with it.
  absl::Status Remove(uint64_t epoch);

  // The file as it is. Errors: those of Read.
  absl::StatusOr<std::string> ReadText(uint64_t epoch) const;

  // What is known to be wrong with it; "": nothing.
  std::string Damage(uint64_t epoch) const;
  // damage: one line; "" takes the mark away. Durable when it returns. Errors: Unavailable.
  absl::Status MarkDamage(uint64_t epoch, const std::string& damage);

  // The number of the last CommitLineage(); 0 before the first.
  uint64_t Lineage() const { return lineage_; }
  absl::Status CommitLineage(uint64_t lineage);

  RestoreMark& restore_mark() { return *restore_mark_; }

 private:
  ManifestStore(std::string directory, uint64_t lineage, std::unique_ptr<RestoreMark> restore_mark)
      : directory_(std::move(directory)),
        restore_mark_(std::move(restore_mark)),
        lineage_(lineage) {}
  std::string PathOf(uint64_t epoch) const;
  std::string DamagePathOf(uint64_t epoch) const;

  const std::string directory_;
  const std::unique_ptr<RestoreMark> restore_mark_;
  uint64_t lineage_;
};

}  // namespace dslide::coordinator
