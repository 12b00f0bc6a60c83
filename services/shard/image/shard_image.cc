#include "services/shard/image/shard_image.h"

#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/byte_fields.h"
#include "core/base/status_macros.h"
#include "core/system/failpoint.h"
#include "core/system/format_version.h"
#include "core/system/sealed_text.h"
#include "services/common/files/durable_files.h"
#include "services/shard/state/core_state.h"
#include "services/shard/storage/storage_metadata.h"
#include "services/shard/storage/storage_rows.h"

namespace dslide::shard {
namespace {

// The version is behind it.
constexpr char kShardImageMagicWord[] = "DSLIMAG";
constexpr int64_t kWithoutHashes = 1;
constexpr int64_t kAllRows = 2;
constexpr int64_t kOfIncrements = 3;
constexpr FormatRange kFormats = {.oldest = kWithoutHashes, .newest = kOfIncrements};

std::string StatePath(const std::string& directory) { return absl::StrCat(directory, "/state"); }

std::string ModelPath(const std::string& directory, size_t number) {
  return absl::StrFormat("%s/model-%03d", directory, number);
}

std::string DeltaPath(const std::string& directory, size_t number, int64_t increment) {
  return absl::StrFormat("%s/delta-%03d-%03d", directory, number, increment);
}

std::string HashesPath(const std::string& directory, size_t number) {
  return absl::StrFormat("%s/hashes-%03d", directory, number);
}

absl::Status DamagedImage(const std::string& path, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(path, " ", what));
}

// What is wrong in a file or directory.
absl::Status In(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

absl::StatusOr<std::string> ReadPart(const std::string& path) {
  absl::StatusOr<std::string> bytes = ReadFile(path);
  if (absl::IsNotFound(bytes.status())) return DamagedImage(path, "is missing");
  return bytes;
}

absl::StatusOr<ModelHashes> ReadHashes(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string bytes, ReadPart(path));
  absl::StatusOr<ModelHashes> hashes = DecodeHashes(bytes);
  if (!hashes.ok()) return In(path, hashes.status());
  return hashes;
}

// What was sealed in the file.
absl::StatusOr<std::string> ReadState(const std::string& path) {
  ASSIGN_OR_RETURN(std::string bytes, ReadPart(path));
  const auto content = UnsealBytes(bytes);
  if (!content.has_value()) return DamagedImage(path, "does not have its checksum");
  bytes.resize(content->size());
  return bytes;
}

// What `state` begins with; the models follow.
absl::StatusOr<ImageHead> ReadHead(const std::string& path, ByteReader& state) {
  const std::optional<int64_t> version = VersionBehind(kShardImageMagicWord, state.Bytes());
  if (!version.has_value()) return DamagedImage(path, "is no state of a shard");
  RETURN_IF_ERROR(CheckFormat(path, *version, kFormats));
  ImageHead head;
  head.has_hashes = *version != kWithoutHashes;
  if (*version == kOfIncrements) {
    const auto increments = state.Number<uint64_t>();
    if (increments == 0 || increments > uint64_t{kMaxIncrements}) {
      return DamagedImage(path, absl::StrCat("has ", increments, " increments"));
    }
    head.increments = static_cast<int64_t>(increments);
    head.base_checkpoint_id = state.Number<uint64_t>();
  }
  head.lsn = state.Number<uint64_t>();
  return head;
}

// Where the rows of a model are, the oldest first.
std::vector<std::string> RowPaths(const std::string& directory, size_t number, int64_t increments) {
  std::vector<std::string> paths = {ModelPath(directory, number)};
  for (int64_t i = 1; i <= increments; ++i) paths.push_back(DeltaPath(directory, number, i));
  return paths;
}

// `hashes`: null in an image without them.
absl::Status LoadModel(const std::vector<std::string>& paths, ModelHashes* hashes,
                       absl::string_view name, uint64_t topology_version, ShardCore& core) {
  const std::string& path = paths.back();
  const absl::StatusOr<CheckpointMetadata> read = ReadCheckpointMetadata(path);
  if (!read.ok()) return In(path, read.status());
  const CheckpointMetadata& metadata = *read;
  if (metadata.spec.name != name) {
    return DamagedImage(path, absl::StrCat("is of model \"", metadata.spec.name, "\", not of \"",
                                           name, "\": directories were swapped"));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<ShardModel> model,
                   core.NewModel({.spec = metadata.spec,
                                  .shard = metadata.shard,
                                  .slot_maps = metadata.slot_maps,
                                  .topology_version = topology_version},
                                 RecordMemory(metadata)));
  RETURN_IF_ERROR(ReadRows(paths, metadata, *model, hashes));
  RETURN_IF_ERROR(CheckDigests(*model, metadata));
  core.InstallModel(std::move(model));
  return absl::OkStatus();
}

// Writes the rows of one model and reads them back.
absl::StatusOr<ImageSize> WriteModel(const std::string& directory, size_t number,
                                     const ImageParts::Model& part, RecordSource& records,
                                     const ImageIncrement* increment) {
  CheckpointMetadata metadata = part.metadata;
  std::string path = ModelPath(directory, number);
  if (increment == nullptr) {
    ASSIGN_OR_RETURN(metadata, WriteRows(path, std::move(metadata), *part.model, records));
  } else {
    path = DeltaPath(directory, number, increment->number);
    metadata.increment = increment->number;
    ASSIGN_OR_RETURN(metadata, WriteChangedRows(path, std::move(metadata), *part.model, records,
                                                increment->changed[number]));
  }
  DSLIDE_FAILPOINT("shard.image.rows_written");
  RETURN_IF_ERROR(increment == nullptr ? VerifyRows(path, metadata, *part.model)
                                       : VerifyChangedRows(path, metadata));
  RETURN_IF_ERROR(SyncDirectory(path));
  DSLIDE_FAILPOINT("shard.image.rows_synced");
  ImageSize size{.bytes = DirectoryBytes(path)};
  for (const CheckpointTable& table : metadata.tables) size.rows += table.present;
  return size;
}

}  // namespace

ImageParts PartsOf(uint64_t lsn, const ShardCore& core) {
  ImageParts parts{.lsn = lsn, .models = {}, .core_state = EncodeCoreState(core)};
  for (const auto& [name, model] : core.models()) {
    parts.models.push_back({.model = model,
                            .metadata = DescribeForCheckpoint(*model),
                            .topology_version = model->topology_version(),
                            .hashes = HashesOf(*model)});
  }
  return parts;
}

absl::StatusOr<ImageSize> WriteImageOf(
    const std::string& directory, const ImageParts& parts,
    const std::function<std::unique_ptr<RecordSource>(size_t)>& records_of,
    const ImageIncrement* increment) {
  RETURN_IF_ERROR(MakeDirectory(directory));
  ImageSize size;
  ByteWriter state;
  state.Bytes(absl::StrCat(kShardImageMagicWord, increment == nullptr ? kAllRows : kOfIncrements));
  if (increment != nullptr) {
    state.Number(static_cast<uint64_t>(increment->number));
    state.Number(increment->base_checkpoint_id);
  }
  state.Number(parts.lsn);
  state.Number<uint64_t>(parts.models.size());
  for (size_t number = 0; number < parts.models.size(); ++number) {
    const ImageParts::Model& part = parts.models[number];
    state.Bytes(part.metadata.spec.name);
    state.Number(part.topology_version);
    ASSIGN_OR_RETURN(const ImageSize rows,
                     WriteModel(directory, number, part, *records_of(number), increment));
    size.rows += rows.rows;
    size.bytes += rows.bytes;
    const std::string hashes = EncodeHashes(part.hashes);
    RETURN_IF_ERROR(ReplaceFile(HashesPath(directory, number), hashes));
    size.bytes += static_cast<int64_t>(hashes.size());
  }
  state.Bytes(parts.core_state);
  const std::string sealed = SealBytes(std::move(state).Take());
  size.bytes += static_cast<int64_t>(sealed.size());
  RETURN_IF_ERROR(ReplaceFile(StatePath(directory), sealed));
  DSLIDE_FAILPOINT("shard.image.state_written");
  return size;
}

absl::Status WriteImage(const std::string& directory, uint64_t lsn, const ShardCore& core) {
  const ImageParts parts = PartsOf(lsn, core);
  return WriteImageOf(directory, parts,
                      [&](size_t number) {
                        return std::make_unique<StoredRecords>(*parts.models[number].model);
                      })
      .status();
}

absl::StatusOr<ImageHead> ReadImageHead(const std::string& directory) {
  const std::string path = StatePath(directory);
  ASSIGN_OR_RETURN(const std::string content, ReadState(path));
  ByteReader state(content);
  ASSIGN_OR_RETURN(ImageHead head, ReadHead(path, state));
  const uint64_t models = state.Count();
  for (uint64_t number = 0; number < models && state.ok(); ++number) {
    head.models.emplace_back(state.Bytes());
    state.Number<uint64_t>();
  }
  if (!state.ok()) return DamagedImage(path, "is cut");
  return head;
}

absl::StatusOr<ImageContent> InspectImage(const std::string& directory) {
  const std::string path = StatePath(directory);
  ASSIGN_OR_RETURN(const std::string content, ReadState(path));
  ByteReader state(content);
  ASSIGN_OR_RETURN(const ImageHead head, ReadHead(path, state));
  ImageContent image{.lsn = head.lsn};
  const uint64_t models = state.Count();
  for (uint64_t number = 0; number < models && state.ok(); ++number) {
    const absl::string_view name = state.Bytes();
    state.Number<uint64_t>();
    const std::string model_path = ModelPath(directory, number);
    const absl::StatusOr<CheckpointMetadata> model =
        InspectRows(RowPaths(directory, number, head.increments));
    if (!model.ok()) return In(model_path, model.status());
    if (model->spec.name != name) return DamagedImage(model_path, "is of another model");
    if (head.has_hashes) RETURN_IF_ERROR(ReadHashes(HashesPath(directory, number)).status());
    for (const CheckpointTable& table : model->tables) image.rows += table.present;
    image.models.push_back(model->spec.name);
  }
  state.Bytes();
  if (!state.AtEnd()) return DamagedImage(path, "is cut, or too long");
  return image;
}

absl::StatusOr<uint64_t> LoadImage(const std::string& directory, ShardCore& core) {
  const std::string path = StatePath(directory);
  ASSIGN_OR_RETURN(const std::string content, ReadState(path));
  ByteReader state(content);
  ASSIGN_OR_RETURN(const ImageHead head, ReadHead(path, state));
  const uint64_t models = state.Count();
  for (uint64_t number = 0; number < models && state.ok(); ++number) {
    const absl::string_view name = state.Bytes();
    const auto topology_version = state.Number<uint64_t>();
    ModelHashes hashes;
    if (head.has_hashes) {
      ASSIGN_OR_RETURN(hashes, ReadHashes(HashesPath(directory, number)));
    }
    RETURN_IF_ERROR(LoadModel(RowPaths(directory, number, head.increments),
                              head.has_hashes ? &hashes : nullptr, name, topology_version, core));
  }
  const absl::string_view core_state = state.Bytes();
  if (!state.AtEnd()) return DamagedImage(path, "is cut, or too long");
  if (const absl::Status restored = RestoreCoreState(core_state, core); !restored.ok()) {
    return In(path, restored);
  }
  return head.lsn;
}

}  // namespace dslide::shard
