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
#include "services/shard/storage/storage_database.h"
#include "services/shard/storage/storage_metadata.h"
#include "services/shard/storage/storage_rows.h"

namespace dslide::shard {
namespace {

// The version is behind it.
constexpr char kShardImageMagicWord[] = "DSLIMAGE";
constexpr int64_t kShardImageFormat = 1;

constexpr char kStateName[] = "state";

std::string PathIn(const std::string& directory, absl::string_view name) {
  return absl::StrCat(directory, "/", name);
}

std::string DeltaPath(const std::string& directory, size_t number, int64_t increment) {
  return absl::StrFormat("%s/delta-%03d-%03d", directory, number, increment);
}

std::string HashesName(size_t number) { return absl::StrFormat("hashes-%03d", number); }

absl::Status DamagedImage(const std::string& path, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(path, " ", what));
}

// What is wrong in a file or directory.
absl::Status In(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

absl::StatusOr<ModelHashes> ReadHashes(SummedFiles& files, size_t number) {
  ASSIGN_OR_RETURN(const std::string bytes, files.Read(HashesName(number)));
  absl::StatusOr<ModelHashes> hashes = DecodeHashes(bytes);
  if (!hashes.ok()) return In(PathIn(files.directory(), HashesName(number)), hashes.status());
  return hashes;
}

struct ImageState {
  ImageHead head;
  std::string core_state;
};

absl::StatusOr<ImageState> ReadState(SummedFiles& files) {
  const std::string path = PathIn(files.directory(), kStateName);
  ASSIGN_OR_RETURN(const std::string bytes, files.Read(kStateName));
  const auto content = UnsealBytes(bytes);
  if (!content.has_value()) return DamagedImage(path, "does not have its checksum");
  ByteReader in(*content);
  const std::optional<int64_t> version = VersionBehind(kShardImageMagicWord, in.Bytes());
  if (!version.has_value()) return DamagedImage(path, "is no state of a shard");
  RETURN_IF_ERROR(
      CheckFormat(path, *version, {.oldest = kShardImageFormat, .newest = kShardImageFormat}));
  ImageState state;
  const auto increments = in.Number<uint64_t>();
  if (increments > uint64_t{kMaxIncrements}) {
    return DamagedImage(path, absl::StrCat("has ", increments, " increments"));
  }
  state.head.increments = static_cast<int64_t>(increments);
  state.head.base_checkpoint_id = in.Number<uint64_t>();
  state.head.lsn = in.Number<uint64_t>();
  state.head.rows_digest = in.Number<uint64_t>();
  for (uint64_t models = in.Count(); models > 0 && in.ok(); --models) {
    ImageHead::Model& model = state.head.models.emplace_back();
    model.name = std::string(in.Bytes());
    model.topology_version = in.Number<uint64_t>();
    model.has_hashes = in.Number<uint8_t>() != 0;
  }
  state.core_state = std::string(in.Bytes());
  if (!in.AtEnd()) return DamagedImage(path, "is cut, or too long");
  return state;
}

std::string EncodeImageState(const ImageParts& parts, const ImageIncrement* increment) {
  ByteWriter out;
  out.Bytes(absl::StrCat(kShardImageMagicWord, kShardImageFormat));
  out.Number(increment == nullptr ? uint64_t{0} : static_cast<uint64_t>(increment->number));
  out.Number(increment == nullptr ? uint64_t{0} : increment->base_checkpoint_id);
  out.Number(parts.lsn);
  out.Number(parts.rows_digest);
  out.Number<uint64_t>(parts.models.size());
  for (const ImageParts::Model& model : parts.models) {
    out.Bytes(model.metadata.spec.name);
    out.Number(model.topology_version);
    out.Number<uint8_t>(model.hashes.has_value() ? 1 : 0);
  }
  out.Bytes(parts.core_state);
  return SealBytes(std::move(out).Take());
}

// Where the rows of a model are, the oldest first.
std::vector<std::string> RowPaths(const std::string& directory, size_t number, int64_t increments) {
  std::vector<std::string> paths = {ModelPath(directory, number)};
  for (int64_t i = 1; i <= increments; ++i) paths.push_back(DeltaPath(directory, number, i));
  return paths;
}

absl::Status LoadModel(SummedFiles& files, const ImageHead& head, size_t number, ShardCore& core) {
  const ImageHead::Model& model_head = head.models[number];
  ModelHashes hashes;
  if (model_head.has_hashes) {
    ASSIGN_OR_RETURN(hashes, ReadHashes(files, number));
  }
  const std::vector<std::string> paths = RowPaths(files.directory(), number, head.increments);
  const std::string& path = paths.back();
  absl::StatusOr<RowDatabaseReader> reader = RowDatabaseReader::Open(paths, &files);
  if (!reader.ok()) return paths.size() > 1 ? reader.status() : In(path, reader.status());
  const absl::StatusOr<CheckpointMetadata> read = ReadCheckpointMetadata(*reader);
  if (!read.ok()) return In(path, read.status());
  const CheckpointMetadata& metadata = *read;
  if (metadata.spec.name != model_head.name) {
    return DamagedImage(path, absl::StrCat("is of model \"", metadata.spec.name, "\", not of \"",
                                           model_head.name, "\": directories were swapped"));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<ShardModel> model,
                   core.NewModel({.spec = metadata.spec,
                                  .shard = metadata.shard,
                                  .slot_maps = metadata.slot_maps,
                                  .topology_version = model_head.topology_version},
                                 RecordMemory(metadata)));
  RETURN_IF_ERROR(ReadRows(*reader, metadata, *model, model_head.has_hashes ? &hashes : nullptr,
                           core.loading()));
  RETURN_IF_ERROR(CheckDigests(*model, metadata));
  core.InstallModel(std::move(model));
  return absl::OkStatus();
}

// Writes the rows of one model and reads them back; returns how many the model has.
absl::StatusOr<int64_t> WriteModel(SummedFiles& read_back, size_t number,
                                   const ImageParts::Model& part, RecordSource& records,
                                   const ImageIncrement* increment) {
  const std::string& directory = read_back.directory();
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
  RETURN_IF_ERROR(VerifyRows(path, metadata, &read_back));
  RETURN_IF_ERROR(SyncDirectory(path));
  DSLIDE_FAILPOINT("shard.image.rows_synced");
  int64_t rows = 0;
  for (const CheckpointTable& table : metadata.tables) rows += table.present;
  return rows;
}

}  // namespace

std::string ModelPath(const std::string& directory, size_t number) {
  return absl::StrFormat("%s/model-%03d", directory, number);
}

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

ImageParts PartsWithoutRows(const ShardCore& core) {
  return {.models = {}, .core_state = EncodeCoreState(core), .rows_digest = core.Digest()};
}

absl::StatusOr<ImageSize> WriteImageOf(
    const std::string& directory, const ImageParts& parts,
    const std::function<std::unique_ptr<RecordSource>(size_t)>& records_of,
    const ImageIncrement* increment) {
  RETURN_IF_ERROR(MakeDirectory(directory));
  SummedFiles read_back(directory);
  ImageSize size;
  if (increment != nullptr) size.base_checkpoint_id = increment->base_checkpoint_id;
  for (size_t number = 0; number < parts.models.size(); ++number) {
    const ImageParts::Model& part = parts.models[number];
    ASSIGN_OR_RETURN(const int64_t rows,
                     WriteModel(read_back, number, part, *records_of(number), increment));
    size.rows += rows;
    if (!part.hashes.has_value()) continue;
    RETURN_IF_ERROR(ReplaceFile(PathIn(directory, HashesName(number)), EncodeHashes(*part.hashes)));
  }
  RETURN_IF_ERROR(ReplaceFile(PathIn(directory, kStateName), EncodeImageState(parts, increment)));
  DSLIDE_FAILPOINT("shard.image.state_written");
  const absl::Span<const ListedFile> linked =
      increment == nullptr ? absl::Span<const ListedFile>() : increment->linked;
  // What was read back is listed as it was read.
  ASSIGN_OR_RETURN(std::vector<ListedFile> known, read_back.Finish());
  known.insert(known.end(), linked.begin(), linked.end());
  ASSIGN_OR_RETURN(size.files, WriteFileList(directory, known));
  DSLIDE_FAILPOINT("shard.image.listed");
  size.bytes = size.files.bytes;
  for (const ListedFile& file : linked) size.bytes -= file.bytes;
  return size;
}

absl::StatusOr<ImageSize> WriteImage(const std::string& directory, uint64_t lsn,
                                     const ShardCore& core) {
  const ImageParts parts = PartsOf(lsn, core);
  return WriteImageOf(directory, parts, [&](size_t number) {
    return std::make_unique<StoredRecords>(*parts.models[number].model);
  });
}

absl::StatusOr<ImageHead> ReadImageHead(SummedFiles& files) {
  ASSIGN_OR_RETURN(ImageState state, ReadState(files));
  return std::move(state.head);
}

absl::StatusOr<ImageHead> ReadImageHead(const std::string& directory) {
  SummedFiles files(directory);
  return ReadImageHead(files);
}

absl::StatusOr<FileListSummary> CheckFilesRead(SummedFiles& files) {
  ASSIGN_OR_RETURN(const std::vector<ListedFile> read, files.Finish());
  return VerifyFileList(files.directory(), read);
}

absl::StatusOr<ImageContent> InspectImage(const std::string& directory) {
  SummedFiles files(directory);
  ASSIGN_OR_RETURN(const ImageHead head, ReadImageHead(files));
  ImageContent image{.lsn = head.lsn};
  for (size_t number = 0; number < head.models.size(); ++number) {
    const std::string model_path = ModelPath(directory, number);
    const absl::StatusOr<CheckpointMetadata> model =
        InspectRows(RowPaths(directory, number, head.increments));
    if (!model.ok()) return In(model_path, model.status());
    if (model->spec.name != head.models[number].name) {
      return DamagedImage(model_path, "is of another model");
    }
    if (head.models[number].has_hashes) {
      RETURN_IF_ERROR(ReadHashes(files, number).status());
    }
    for (const CheckpointTable& table : model->tables) image.rows += table.present;
    image.models.push_back(model->spec.name);
  }
  return image;
}

absl::StatusOr<LoadedImage> LoadImage(const std::string& directory, ShardCore& core) {
  const std::string path = PathIn(directory, kStateName);
  SummedFiles files(directory);
  ASSIGN_OR_RETURN(const ImageState state, ReadState(files));
  const ImageHead& head = state.head;
  for (size_t number = 0; number < head.models.size(); ++number) {
    RETURN_IF_ERROR(LoadModel(files, head, number, core));
  }
  LoadedImage loaded{.lsn = head.lsn};
  ASSIGN_OR_RETURN(loaded.files, CheckFilesRead(files));
  if (head.models.empty() && head.rows_digest != core.Digest()) {
    return DamagedImage(path, "is of other rows than those that are here");
  }
  if (const absl::Status restored = RestoreCoreState(state.core_state, core); !restored.ok()) {
    return In(path, restored);
  }
  return loaded;
}

}  // namespace dslide::shard
