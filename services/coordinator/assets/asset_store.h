// The assets of the models: names of labels and features, weights of words, vocabulary, tokenizer;
// for the cluster blobs of bytes that have a name. Those of a model are a set that never changes,
// known by the checksum of its list of files, which is one of its files (kFileListName).
//
// A set arrives in pieces, and becomes the model's at once and whole. It stays while the model has
// it, or a cluster checkpoint names it: a model that was deleted comes back with its names.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "core/system/file_list.h"
#include "services/coordinator/assets/asset_folders.h"

namespace dslide::coordinator {

// Bytes of one piece: well below the smallest message that servers accept.
inline constexpr int64_t kAssetPieceBytes = int64_t{1} << 20;
// Files of a set beside its list.
inline constexpr int64_t kMaxAssets = 32;

struct AssetLimits {
  // Of one set, its list included, >= 1.
  int64_t max_set_bytes = int64_t{1} << 30;
  // Sets that are arriving, >= 1; one more takes the place of the one that was longest silent.
  size_t max_uploads = 4;
};

// A set that a checkpoint names.
struct AssetSet {
  AssetSetId id;
  int64_t files = 0;
  int64_t bytes = 0;
  friend bool operator==(const AssetSet&, const AssetSet&) = default;
};

// Whether models are there is the caller's to know. Errors: those of AssetFolders, and what the
// calls say. Thread safety: safe from any thread; calls block for the disk.
class AssetStore {
 public:
  // Errors: those of AssetFolders::Load.
  static absl::StatusOr<std::unique_ptr<AssetStore>> Open(std::unique_ptr<AssetFolders> folders,
                                                          const AssetLimits& limits);

  // A piece of a file of a set, the list among them. offset: the size of what has arrived of the
  // file, or less. Errors: InvalidArgument for a bad name, an offset below 0 or a piece that is too
  // long; NotFound UNKNOWN_ASSETS when what comes before it is not here: begin the set anew;
  // ResourceExhausted OVER_LIMIT.
  absl::Status Write(const AssetSetId& id, const std::string& file, int64_t offset,
                     absl::string_view piece);

  // Makes a set that has arrived the model's; false when it was. A damaged one is mended by what
  // has arrived. A model that has other assets keeps them, unless they are those of `replaces`:
  // rows were learnt under these names. Errors: NotFound UNKNOWN_ASSETS when it has not arrived;
  // DataLoss naming the file that is not what its list says: what has arrived is gone;
  // FailedPrecondition ASSETS_DIFFER naming the files that differ.
  absl::StatusOr<bool> Commit(const AssetSetId& id, std::optional<uint32_t> replaces);

  // What the model has; an empty list when it has none. Errors: DataLoss.
  absl::StatusOr<FileList> Find(const std::string& model) const;
  // At most kAssetPieceBytes of a kept set; "" at the end. Errors: InvalidArgument as Write;
  // NotFound UNKNOWN_ASSETS.
  absl::StatusOr<std::string> Read(const AssetSetId& id, const std::string& file,
                                   int64_t offset) const;
  // The model has none any more. Fine when it had none.
  absl::Status Remove(const std::string& model);

  // --- Cluster checkpoints.
  // Those of all models, which stay until Retain(). Quick; a damaged list is logged and left out.
  std::vector<AssetSet> Capture();
  // Reads every byte. Errors: DataLoss, also for a set that is missing.
  absl::Status Verify(const AssetSet& set) const;
  // Takes in a set that has arrived for a checkpoint, unless a whole one is here. Errors: as
  // Commit.
  absl::Status TakeIn(const AssetSet& set);
  // Makes these the models', and no others. Repeating it is fine.
  absl::Status Replace(const std::vector<AssetSetId>& sets);
  // Removes what is neither a model's nor one of these.
  void Retain(const std::vector<AssetSetId>& sets);
  // The checksum of the model's set.
  std::optional<uint32_t> Current(const std::string& model) const;

 private:
  using Place = AssetFolders::Place;
  struct Upload {
    std::map<std::string, int64_t> files;  // sizes
    int64_t touched = 0;                   // in the order of calls
    int64_t bytes() const;
  };

  AssetStore(std::unique_ptr<AssetFolders> folders, const AssetLimits& limits);
  absl::StatusOr<std::string> ReadPiece(Place place, const AssetSetId& id, const std::string& file,
                                        int64_t offset) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckSet(Place place, const AssetSetId& id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<FileList> ListOf(Place place, const AssetSetId& id) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Makes sure that a whole set of that id is kept.
  absl::Status Keep(const AssetSetId& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Differs(const AssetSetId& id, uint32_t present) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void DropUpload(const AssetSetId& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool IsCurrent(const AssetSetId& id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Clear(const std::string& model) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RemoveUnused() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const AssetLimits limits_;
  mutable absl::Mutex mu_;
  const std::unique_ptr<AssetFolders> folders_ ABSL_PT_GUARDED_BY(mu_);
  std::map<AssetSetId, Upload> uploads_ ABSL_GUARDED_BY(mu_);
  std::set<AssetSetId> kept_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, uint32_t> current_ ABSL_GUARDED_BY(mu_);
  std::set<AssetSetId> retained_ ABSL_GUARDED_BY(mu_);  // by checkpoints
  int64_t calls_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace dslide::coordinator
