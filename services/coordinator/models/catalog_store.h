// The coordinator's memory on disk: models, shard ownerships, topology. Small and rarely written.
//
// Format: RocksDB at DIR/catalog. A key ("model/NAME", "membership") has the value
//   [version: u8 = 1][JSON text][CRC-32C of key, version and text: u32 little-endian].
// Each write goes to a table file at once (no write-ahead log), since RocksDB's recovery drops log
// records after a flipped bit without a word, but refuses damaged table files.

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/spec/model_spec.h"
#include "services/coordinator/membership/membership.h"

namespace dslide::coordinator {

struct CatalogContent {
  std::optional<MembershipRecord> membership;
  std::vector<ModelSpec> models;
};

// A write has returned only when it is on disk. Not thread-safe.
class CatalogStore {
 public:
  virtual ~CatalogStore() = default;

  // Everything stored. Errors: DataLoss naming the key that is damaged; FailedPrecondition naming
  // one of another version.
  virtual absl::StatusOr<CatalogContent> Load() const = 0;

  // Errors: Unavailable with the disk's reason; the old content then stays.
  virtual absl::Status PutMembership(const MembershipRecord& record) = 0;
  virtual absl::Status PutModel(const ModelSpec& spec) = 0;
  virtual absl::Status DeleteModel(const std::string& name) = 0;
};

// Opens or makes the store in a directory, which is made when it is missing.
// Errors: DataLoss when it is damaged; FailedPrecondition when another process has it open or
// another version has written it; Unavailable for another reason. All name the directory and the
// remedy.
absl::StatusOr<std::unique_ptr<CatalogStore>> OpenCatalogStore(const std::string& data_dir);

// Reads all of a catalogue that no coordinator uses, and changes nothing; how many models it has.
// Errors: NotFound when there is none; DataLoss naming what is damaged; Unavailable.
absl::StatusOr<int64_t> InspectCatalog(const std::string& data_dir);

}  // namespace dslide::coordinator
