#include "services/shard/durability/log_directory.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/system/failpoint.h"
#include "core/system/log.h"
#include "services/common/files/durable_files.h"
#include "services/shard/image/image_store.h"
#include "services/shard/log/command_log.h"

namespace dslide::shard {
namespace {

namespace fs = std::filesystem;

constexpr char kDirectory[] = "command_log";
constexpr char kUnfinished[] = ".tmp-command_log";
constexpr absl::Duration kProgressInterval = absl::Seconds(5);

std::string ImagesIn(const std::string& directory) { return absl::StrCat(directory, "/images"); }

// Says how far a replay is, from time to time.
class Progress {
 public:
  Progress(const Clock& clock, uint64_t durable)
      : clock_(clock), durable_(durable), last_(clock.Now()) {}

  void Replayed(uint64_t lsn) {
    if (clock_.Now() - last_ < kProgressInterval) return;
    last_ = clock_.Now();
    LogInfo("replaying the command log", {{"now", lsn}, {"to_at_least", durable_}});
  }

 private:
  const Clock& clock_;
  const uint64_t durable_;
  absl::Duration last_;
};

CommandLogOptions LogOptions(const LogDirectoryOptions& options) {
  CommandLogOptions log;
  log.storage = options.storage;
  log.reserve = options.reserve;
  log.clock = options.clock;
  if (options.durability.mode == Durability::kLogPeriodic) {
    log.sync_interval = options.durability.sync_interval;
  }
  return log;
}

DurableStateParts PartsOf(const std::string& directory, const LogDirectoryOptions& options) {
  auto images = std::make_unique<ImageStore>(ImagesIn(directory));
  const auto open_log =
      [store = images.get(), directory,
       options](DurableStateParts::Visit visit) -> absl::StatusOr<std::unique_ptr<ShardLog>> {
    ASSIGN_OR_RETURN(const HighWater mark, HighWaterFile::Read(HighWaterPath(directory)));
    Progress progress(*options.clock, mark.durable);
    ASSIGN_OR_RETURN(std::unique_ptr<CommandLog> log,
                     CommandLog::Open(directory, LogOptions(options), [&](const LogRecord& record) {
                       progress.Replayed(record.lsn);
                       return visit(record);
                     }));
    RETURN_IF_ERROR(store->Sweep());
    return log;
  };
  return {.images = std::move(images),
          .open_log = open_log,
          .durability = options.durability,
          .clock = options.clock};
}

}  // namespace

bool LogDirectory::Exists(const std::string& data_dir) {
  std::error_code error;
  return fs::exists(PathIn(data_dir), error);
}

std::string LogDirectory::PathIn(const std::string& data_dir) {
  return (fs::path(data_dir) / kDirectory).string();
}

std::string LogDirectory::ImagePathIn(const std::string& data_dir, const LogImage& image) {
  return absl::StrCat(ImagesIn(PathIn(data_dir)), "/", LogLabel(image));
}

absl::StatusOr<std::vector<LogImage>> LogDirectory::Images(const std::string& data_dir) {
  const std::string images = ImagesIn(PathIn(data_dir));
  return CountingImages(ImageStore::LabelsIn(images), images);
}

absl::StatusOr<std::unique_ptr<DurableState>> LogDirectory::Restore(
    const std::string& data_dir, const LogDirectoryOptions& options,
    const DurableState::MakeCore& make_core, std::unique_ptr<ShardCore>* core) {
  RETURN_IF_ERROR(ImageStore::CheckListable(ImagesIn(PathIn(data_dir))));
  return DurableState::Restore(PartsOf(PathIn(data_dir), options), make_core, core);
}

absl::StatusOr<std::unique_ptr<DurableState>> LogDirectory::Create(
    const std::string& data_dir, const LogDirectoryOptions& options, const ShardCore& core) {
  const std::string directory = PathIn(data_dir);
  const std::string unfinished = (fs::path(data_dir) / kUnfinished).string();
  RETURN_IF_ERROR(RemoveAll(unfinished));
  RETURN_IF_ERROR(MakeDirectory(unfinished));
  RETURN_IF_ERROR(CommandLog::Create(unfinished, LogOptions(options)));
  ASSIGN_OR_RETURN(const std::unique_ptr<ImageStore> images,
                   ImageStore::Open(ImagesIn(unfinished)));
  RETURN_IF_ERROR(images->Write(LogLabel({}), /*lsn=*/0, core));
  RETURN_IF_ERROR(SyncDirectory(unfinished));
  DSLIDE_FAILPOINT("shard.state.made");
  RETURN_IF_ERROR(Rename(unfinished, directory));
  DSLIDE_FAILPOINT("shard.state.renamed");
  RETURN_IF_ERROR(SyncDirectory(data_dir));
  return DurableState::Create(PartsOf(directory, options));
}

absl::Status LogDirectory::Remove(const std::string& data_dir) {
  const fs::path unfinished = fs::path(data_dir) / kUnfinished;
  RETURN_IF_ERROR(RemoveAll(unfinished));
  RETURN_IF_ERROR(Rename(PathIn(data_dir), unfinished));
  RETURN_IF_ERROR(SyncDirectory(data_dir));
  return RemoveAll(unfinished);
}

}  // namespace dslide::shard
