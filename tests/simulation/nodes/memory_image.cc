#include "tests/simulation/nodes/memory_image.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/crc32c.h"
#include "core/base/status_macros.h"
#include "services/shard/state/core_state.h"
#include "services/shard/storage/hash_image.h"

namespace dslide::simulation {

uint32_t MemoryImage::Checksum() const {
  uint32_t crc = ExtendCrc32c(0, core_state);
  for (const Model& model : models) {
    for (const Table& table : model.tables) {
      for (const std::string& record : table.records) crc = ExtendCrc32c(crc, record);
    }
    crc = ExtendCrc32c(crc, model.hashes);
  }
  return crc;
}

ImageWriter::ImageWriter(const shard::ShardSnapshot& snapshot, bool without_copies,
                         std::shared_ptr<const MemoryImage> base)
    : parts_(snapshot.parts()),
      without_copies_(without_copies),
      base_(std::move(base)),
      changed_(snapshot.changed()) {
  Begin();
  for (size_t number = 0; number < parts_.models.size(); ++number) {
    sources_.push_back(snapshot.Records(number));
  }
}

ImageWriter::ImageWriter(uint64_t lsn, const shard::ShardCore& core)
    : parts_(shard::PartsOf(lsn, core)), without_copies_(false) {
  Begin();
  for (const shard::ImageParts::Model& part : parts_.models) {
    sources_.push_back(std::make_unique<shard::StoredRecords>(*part.model));
  }
}

void ImageWriter::Begin() {
  image_.lsn = parts_.lsn;
  image_.core_state = parts_.core_state;
  for (const shard::ImageParts::Model& part : parts_.models) {
    MemoryImage::Model& model = image_.models.emplace_back();
    model.create = {.spec = part.metadata.spec,
                    .shard = part.metadata.shard,
                    .slot_maps = part.metadata.slot_maps,
                    .topology_version = part.topology_version};
    model.hashes = shard::EncodeHashes(*part.hashes);
    for (const shard::CheckpointTable& table : part.metadata.tables) {
      MemoryImage::Table& own = model.tables.emplace_back();
      own.applied_steps = table.applied_steps;
      own.records.reserve(static_cast<size_t>(table.rows));
    }
  }
}

bool ImageWriter::WriteSome(int64_t rows) {
  for (; model_ < parts_.models.size(); ++model_, table_ = 0) {
    const shard::ShardModel& model = *parts_.models[model_].model;
    for (; table_ < model.tables().size(); ++table_, row_ = 0) {
      const StoredRows& stored = model.tables()[table_].stored();
      MemoryImage::Table& table = image_.models[model_].tables[table_];
      for (; row_ < stored.rows().num_rows(); ++row_) {
        if (rows-- <= 0) return false;
        const LocalRow row(static_cast<uint32_t>(row_));
        absl::Span<const char> record = sources_[model_]->Record(table_, row);
        if (without_copies_) record = stored.RecordSpan(row);
        // Of what is in memory, as the product does it: a row that changed unnoticed is found.
        table.digest += stored.DigestOf(row, record);
        if (base_ != nullptr && !changed_[model_][table_].Has(row)) {
          record = base_->models[model_].tables[table_].records[row_];
        }
        table.records.emplace_back(record.data(), record.size());
      }
    }
  }
  return true;
}

bool ImageWriter::lost() const {
  return std::any_of(sources_.begin(), sources_.end(),
                     [](const auto& source) { return source->lost(); });
}

MemoryImage ImageOf(uint64_t lsn, const shard::ShardCore& core) {
  ImageWriter writer(lsn, core);
  writer.WriteSome(INT64_MAX);
  return writer.Take();
}

absl::Status RestoreImage(const MemoryImage& image, shard::ShardCore& core) {
  for (const MemoryImage::Model& stored : image.models) {
    ASSIGN_OR_RETURN(std::unique_ptr<shard::ShardModel> model, core.NewModel(stored.create));
    ASSIGN_OR_RETURN(shard::ModelHashes hashes, shard::DecodeHashes(stored.hashes));
    const auto bound = static_cast<float>(stored.create.spec.magnitude_bound);
    std::vector<Step> applied;
    for (size_t t = 0; t < stored.tables.size(); ++t) {
      const MemoryImage::Table& table = stored.tables[t];
      applied.emplace_back(table.applied_steps);
      StoredRows& rows = model->tables()[t].stored();
      for (size_t row = 0; row < table.records.size(); ++row) {
        RETURN_IF_ERROR(
            rows.SetRecord(LocalRow(static_cast<uint32_t>(row)), table.records[row], bound));
      }
      if (rows.Digest(model->parallelism()) == table.digest) continue;
      return absl::DataLossError(absl::StrCat("table ", t, " does not have its digest"));
    }
    RETURN_IF_ERROR(model->FinishLoad(applied, &hashes));
    core.InstallModel(std::move(model));
  }
  return shard::RestoreCoreState(image.core_state, core);
}

}  // namespace dslide::simulation
