// The manifests of the committed cluster checkpoints:
//
//   <data dir>/checkpoints/MANIFEST-<checkpoint_id of 20 digits>
//
//   <data dir>/checkpoints/DAMAGED-<checkpoint_id>   what a verification found wrong with it
//   <data dir>/checkpoints/RESTORE_COUNT     how often the cluster was taken back to one
//   <data dir>/checkpoints/RESTORING         while that is being done (restore_mark.h)
//   <data dir>/checkpoints/EVICTED           clients that the next manifest has to name
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
#include "core/base/ids.h"
#include "services/coordinator/checkpoints/manifest.h"
#include "services/coordinator/checkpoints/restore_mark.h"

namespace dslide::coordinator {

// Thread safety: one caller at a time.
class ManifestStore {
 public:
  // The one on the disk. Errors: Unavailable with the system's reason; DataLoss when RESTORE_COUNT
  // or RESTORING is damaged; FailedPrecondition when another version has written them.
  static absl::StatusOr<std::unique_ptr<ManifestStore>> Open(const std::string& data_dir);
  // The same of a directory that is there; makes nothing.
  static absl::StatusOr<std::unique_ptr<ManifestStore>> OpenExisting(const std::string& data_dir);
  virtual ~ManifestStore() = default;

  // Epochs of committed checkpoints, the newest first.
  virtual std::vector<uint64_t> List() const = 0;
  // Errors: NotFound UNKNOWN_CHECKPOINT; DataLoss naming the file; FailedPrecondition when another
  // version has written it.
  virtual absl::StatusOr<Manifest> Read(uint64_t checkpoint_id) const = 0;
  // Durable when it returns. Errors: Unavailable; it is not committed then.
  virtual absl::Status Commit(const Manifest& manifest) = 0;
  // Fine when there is none. Its mark goes with it.
  virtual absl::Status Remove(uint64_t checkpoint_id) = 0;

  // The file as it is. Errors: those of Read.
  virtual absl::StatusOr<std::string> ReadText(uint64_t checkpoint_id) const = 0;

  // What is known to be wrong with it; "": nothing.
  virtual std::string Damage(uint64_t checkpoint_id) const = 0;
  // damage: one line; "" takes the mark away. Durable when it returns. Errors: Unavailable.
  virtual absl::Status MarkDamage(uint64_t checkpoint_id, const std::string& damage) = 0;

  // The number of the last CommitRestoreCount(); 0 before the first.
  virtual uint64_t RestoreCount() const = 0;
  virtual absl::Status CommitRestoreCount(uint64_t restore_count) = 0;

  // Clients that were retired for a checkpoint that came to nothing: the rows may hold parts of
  // their last steps, and no manifest says so yet.
  virtual std::vector<ClientId> Evicted() const = 0;
  // Replaces them. Durable when it returns. Errors: Unavailable; they are as they were then.
  virtual absl::Status KeepEvicted(const std::vector<ClientId>& clients) = 0;

  virtual RestoreMark& restore_mark() = 0;
};

}  // namespace dslide::coordinator
