// The hash tables of a model in an image: what they are made of, as bytes. In an image beside the
// rows because tables depend on what their rows were when they were hashed.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/engine/model/head_hashes.h"
#include "services/shard/state/shard_model.h"

namespace dslide::shard {

// By table of the model; nothing for those without hash tables.
using ModelHashes = std::vector<std::optional<HeadHashes>>;

// Of a model whose tables are settled.
ModelHashes HashesOf(const ShardModel& model);

// With a magic word in front and a CRC-32C (u32) at the end.
std::string EncodeHashes(const ModelHashes& hashes);
// Errors: DataLoss saying what is wrong with the bytes; FailedPrecondition for another version.
absl::StatusOr<ModelHashes> DecodeHashes(absl::string_view bytes);

}  // namespace dslide::shard
