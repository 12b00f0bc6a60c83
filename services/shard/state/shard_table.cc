#include "services/shard/state/shard_table.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "services/shard/state/refusal.h"

namespace dslide::shard {

StoredRows& ShardTable::stored() {
  if (records != nullptr) return *records;
  return store();
}

RowStore& ShardTable::store() {
  if (embedding != nullptr) return embedding->store();
  return head != nullptr ? head->store() : *dense;
}

Step ShardTable::applied() const {
  if (embedding != nullptr) return embedding->applied();
  return head != nullptr ? head->applied() : own_applied;
}

void ShardTable::ResetAfterLoad(Step applied, Parallelism parallelism) {
  if (embedding != nullptr) return embedding->set_applied(applied);
  if (head != nullptr) return head->ResetAfterLoad(applied, parallelism);
  own_applied = applied;
}

absl::Status ShardTable::RestoreAfterLoad(Step applied, std::optional<HeadHashes> hashes,
                                          Parallelism parallelism) {
  const bool wants = head != nullptr && head->has_hashes();
  if (wants != hashes.has_value()) {
    return absl::DataLossError(absl::StrCat("table \"", spec.name, "\" has ", wants ? "" : "no ",
                                            "hash tables, the image ", wants ? "none" : "some"));
  }
  if (!wants) {
    ResetAfterLoad(applied, parallelism);
    return absl::OkStatus();
  }
  absl::Status restored = head->RestoreAfterLoad(applied, *std::move(hashes), parallelism);
  if (restored.ok()) return restored;
  return absl::DataLossError(absl::StrCat("table \"", spec.name, "\": ", restored.message()));
}

void ShardTable::AdvanceStep(Parallelism parallelism) {
  const Step next(applied().value() + 1);
  if (embedding != nullptr) return embedding->set_applied(next);
  if (head != nullptr) return head->AdvanceStep(parallelism);
  own_applied = next;
}

int64_t ShardTable::memory_bytes() const {
  return head != nullptr ? head->memory_bytes() : stored().memory_bytes();
}

absl::Status ShardTable::CheckFingerprints(absl::Span<const uint32_t> prints, int64_t batch) const {
  const HashIndex* const index = head->index();
  const int64_t num_tables = index == nullptr ? 0 : index->family().num_tables();
  if (static_cast<int64_t>(prints.size()) != batch * num_tables) {
    return Refuse(
        reason::kBadFingerprint,
        absl::StrCat("the request has ", prints.size(), " fingerprints for ", batch,
                     " samples, table \"", spec.name, "\" has ", num_tables, " hash tables"));
  }
  if (index == nullptr) return absl::OkStatus();
  const uint32_t limit = uint32_t{1} << index->family().fingerprint_bits();
  for (size_t i = 0; i < prints.size(); ++i) {
    if (prints[i] >= limit) {
      return Refuse(reason::kBadFingerprint,
                    absl::StrCat("fingerprint ", prints[i], " at position ", i, " must be below ",
                                 limit, ": hash with the model's codes per table"));
    }
  }
  return absl::OkStatus();
}

}  // namespace dslide::shard
