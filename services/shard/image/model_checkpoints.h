// Checkpoints of single models: images of the rows of one, under names of the caller's choice.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "services/shard/image/image_store.h"
#include "services/shard/image/shard_image.h"
#include "services/shard/state/shard_core.h"
#include "services/shard/state/shard_model.h"

namespace dslide::shard {

// The checkpoint that a clean stop writes and a start loads.
inline constexpr char kLatestCheckpoint[] = "latest";

// Not thread-safe; the thread that owns the models calls it.
class ModelCheckpoints {
 public:
  // `store` outlives it.
  explicit ModelCheckpoints(ImageStore* store) : store_(store) {}

  // Writes all rows of the model, reads them back, and only then puts the checkpoint in place of an
  // earlier one of that name. Names are checked by the caller ([a-z0-9-]{1,64}).
  // Errors: Unavailable with the disk's reason; DataLoss when what is read back differs. An earlier
  // checkpoint then stays.
  absl::StatusOr<ImageSize> Write(const ShardModel& model, const std::string& checkpoint);

  // Makes a model from a checkpoint. `core` gives memory and threads and stays as it is, except
  // that a model of that name there must fit: same spec (but for training), same slots.
  // Errors: NotFound UNKNOWN_CHECKPOINT; FailedPrecondition SLOTS_DIFFER, MODEL_DIFFERS; DataLoss
  // naming what differs from what was written; ResourceExhausted OUT_OF_MEMORY.
  absl::StatusOr<std::unique_ptr<ShardModel>> Load(ShardCore& core, const std::string& name,
                                                   const std::string& checkpoint) const;

  // Whether `data_dir`, which need not exist or be open, has a checkpoint that a start would find.
  static bool Exists(const std::string& data_dir, const std::string& model,
                     const std::string& checkpoint);

  // Removes those checkpoints of the model whose names begin so, but for `kept`. Errors: the
  // disk's.
  absl::Status RemoveOthers(const std::string& model, absl::string_view prefix,
                            absl::Span<const std::string> kept);

  // The models that have a checkpoint of that name, sorted.
  std::vector<std::string> ModelsWith(const std::string& checkpoint) const;

  // Removes a checkpoint; fine when there is none.
  absl::Status Remove(const std::string& model, const std::string& checkpoint);

 private:
  ImageStore* const store_;
};

}  // namespace dslide::shard
