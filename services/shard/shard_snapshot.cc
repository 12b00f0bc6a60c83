#include "services/shard/shard_snapshot.h"

#include <algorithm>
#include <utility>

namespace dslide::shard {
namespace {

// The records of one model as they were.
class SnapshotRecords final : public RecordSource {
 public:
  SnapshotRecords(const ShardModel& model,
                  const std::vector<std::shared_ptr<RowSnapshot>>& snapshots)
      : model_(model), snapshots_(snapshots) {}

  absl::Span<const char> Record(size_t table, LocalRow row) override {
    const absl::Span<const char> present = model_.tables()[table].store().RecordSpan(row);
    record_.resize(present.size());
    snapshots_[table]->Take(row, present.data(), record_.data());
    return record_;
  }

 private:
  const ShardModel& model_;
  const std::vector<std::shared_ptr<RowSnapshot>>& snapshots_;
  std::vector<char> record_;
};

}  // namespace

bool ShardSnapshot::Active(const ShardCore& core) {
  for (const auto& [name, model] : core.models()) {
    for (const ShardTable& table : model->tables()) {
      if (table.store().has_snapshot()) return true;
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
      RowStore& store = table.store();
      tables.push_back(store.StartSnapshot(std::max(kLeastCopiedBytes, store.memory_bytes() / 4)));
    }
  }
  return snapshot;
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
    for (ShardTable& table : model->tables()) table.store().EndSnapshot();
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
