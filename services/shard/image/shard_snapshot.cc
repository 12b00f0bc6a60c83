#include "services/shard/image/shard_snapshot.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dslide::shard {
namespace {

// The records of one model as they were.
class SnapshotRecords final : public RecordSource {
 public:
  SnapshotRecords(const ShardModel& model,
                  const std::vector<std::shared_ptr<RowSnapshot>>& snapshots)
      : model_(model), snapshots_(snapshots) {}

  absl::Span<const char> Record(size_t table, LocalRow row) override {
    snapshots_[table]->Take(row, record_);
    return record_;
  }
  uint64_t Digest(size_t table, LocalRow row) override {
    const StoredRows& stored = model_.tables()[table].stored();
    uint64_t digest = 0;
    snapshots_[table]->Read(
        row, [&](absl::Span<const char> record) { digest = stored.DigestOf(row, record); });
    return digest;
  }
  bool lost() const override {
    return std::any_of(snapshots_.begin(), snapshots_.end(),
                       [](const auto& snapshot) { return snapshot->abandoned(); });
  }

 private:
  const ShardModel& model_;
  const std::vector<std::shared_ptr<RowSnapshot>>& snapshots_;
  std::string record_;
};

}  // namespace

bool ShardSnapshot::Active(const ShardCore& core) {
  for (const auto& [name, model] : core.models()) {
    for (const ShardTable& table : model->tables()) {
      if (table.stored().has_snapshot()) return true;
    }
  }
  return false;
}

std::unique_ptr<ShardSnapshot> ShardSnapshot::Take(uint64_t lsn, ShardCore& core) {
  std::unique_ptr<ShardSnapshot> snapshot(new ShardSnapshot());
  snapshot->parts_ = PartsOf(lsn, core);
  for (const auto& [name, model] : core.models()) {
    snapshot->models_.push_back(model);
    auto& tables = snapshot->rows_.emplace_back();
    for (ShardTable& table : model->tables()) {
      StoredRows& stored = table.stored();
      tables.push_back(
          stored.StartSnapshot(std::max(kLeastCopiedBytes, stored.memory_bytes() / 4)));
    }
  }
  return snapshot;
}

std::unique_ptr<ShardSnapshot> ShardSnapshot::TakeCut(uint64_t lsn, ShardCore& core,
                                                      uint64_t checkpoint_id,
                                                      const PartBase& base) {
  std::unique_ptr<ShardSnapshot> snapshot = Take(lsn, core);
  if (base.checkpoint_id != 0) snapshot->FindChanges(base);
  for (const auto& model : snapshot->models_) {
    for (ShardTable& table : model->tables()) table.stored().changes().Cut(checkpoint_id);
  }
  return snapshot;
}

void ShardSnapshot::FindChanges(const PartBase& base) {
  for (const auto& model : models_) {
    std::vector<ChangedRows>& tables = changed_.emplace_back();
    for (ShardTable& table : model->tables()) {
      std::optional<ChangedRows> changed = table.stored().changes().Since(base.checkpoint_id);
      if (!changed.has_value()) {
        changed_.clear();
        why_no_base_ =
            absl::StrCat("model \"", model->spec().name,
                         "\" does not know what has changed since checkpoint ", base.checkpoint_id);
        return;
      }
      tables.push_back(*std::move(changed));
    }
  }
  base_ = base;
}

ShardSnapshot::Share ShardSnapshot::ChangedShare() const {
  Share share;
  for (size_t m = 0; m < changed_.size(); ++m) {
    for (size_t t = 0; t < changed_[m].size(); ++t) {
      const CheckpointTable& table = parts_.models[m].metadata.tables[t];
      // Of records of their own lengths, the mean.
      const int64_t row_bytes = table.record_bytes > 0
                                    ? table.record_bytes
                                    : table.stored_bytes / std::max<int64_t>(1, table.present);
      share.changed_bytes += changed_[m][t].Count() * row_bytes;
      share.bytes += table.present * row_bytes;
    }
  }
  return share;
}

absl::StatusOr<ImageSize> ShardSnapshot::WriteIncrement(const std::string& directory,
                                                        const LinkedBase& linked) {
  const ImageIncrement increment{.base_checkpoint_id = base_.checkpoint_id,
                                 .number = linked.increments + 1,
                                 .changed = changed_,
                                 .linked = linked.files};
  return WriteImageOf(
      directory, parts_, [this](size_t number) { return Records(number); }, &increment);
}

absl::StatusOr<ImageSize> ShardSnapshot::Write(const std::string& directory) {
  return WriteImageOf(directory, parts_, [this](size_t number) { return Records(number); });
}

std::unique_ptr<RecordSource> ShardSnapshot::Records(size_t number) const {
  return std::make_unique<SnapshotRecords>(*models_[number], rows_[number]);
}

void ShardSnapshot::Abandon() {
  for (auto& tables : rows_) {
    for (auto& table : tables) table->Abandon();
  }
}

void ShardSnapshot::Release() {
  for (const auto& model : models_) {
    for (ShardTable& table : model->tables()) table.stored().EndSnapshot();
  }
}

int64_t ShardSnapshot::copied_bytes() const {
  int64_t bytes = 0;
  for (const auto& tables : rows_) {
    for (const auto& table : tables) bytes += table->copied_bytes();
  }
  return bytes;
}

}  // namespace dslide::shard
