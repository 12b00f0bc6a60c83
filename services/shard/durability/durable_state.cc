#include "services/shard/durability/durable_state.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "core/base/status_macros.h"
#include "core/system/failpoint.h"
#include "core/system/format_version.h"
#include "core/system/log.h"
#include "core/system/sealed_text.h"
#include "core/wire/log/logged_command.h"
#include "services/common/files/durable_files.h"
#include "services/shard/image/shard_image.h"
#include "services/shard/state/core_state.h"

namespace dslide::shard {
namespace {

namespace fs = std::filesystem;

// No name of a model has an underscore: models' checkpoints lie beside it.
constexpr char kDirectory[] = "command_log";
constexpr char kUnfinished[] = ".tmp-command_log";
constexpr char kImage[] = "image-";
// The version is behind it.
constexpr char kCurrentWord[] = "dslide shard images ";
constexpr int64_t kCurrentFormat = 1;
constexpr size_t kKeptImages = 2;
constexpr absl::Duration kProgressInterval = absl::Seconds(5);

std::string CurrentPath(const std::string& directory) {
  return absl::StrCat(directory, "/CURRENT");
}

std::string ImageName(uint64_t lsn) { return absl::StrFormat("%s%020d", kImage, lsn); }

std::string ImagePath(const std::string& directory, uint64_t lsn) {
  return absl::StrCat(directory, "/", ImageName(lsn));
}

std::string EncodeCurrent(const std::vector<uint64_t>& images) {
  std::string text = absl::StrCat(kCurrentWord, kCurrentFormat, "\n");
  for (const uint64_t lsn : images) absl::StrAppend(&text, ImageName(lsn), "\n");
  return SealText(std::move(text));
}

// The images that count, newest first.
absl::StatusOr<std::vector<uint64_t>> ReadCurrent(const std::string& directory) {
  const std::string path = CurrentPath(directory);
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (absl::IsNotFound(text.status())) {
    return absl::DataLossError(absl::StrCat(path, ", which names the images, is missing"));
  }
  RETURN_IF_ERROR(text.status());
  RETURN_IF_ERROR(CheckSealedFormat(path, *text, kCurrentWord,
                                    {.oldest = kCurrentFormat, .newest = kCurrentFormat}));
  std::vector<uint64_t> images;
  for (const absl::string_view line : absl::StrSplit(*text, '\n')) {
    uint64_t lsn = 0;
    if (absl::StartsWith(line, kImage) && absl::SimpleAtoi(line.substr(sizeof(kImage) - 1), &lsn)) {
      images.push_back(lsn);
    }
  }
  // Whatever was not understood, or was changed, encodes differently.
  if (images.empty() || EncodeCurrent(images) != *text) {
    return absl::DataLossError(
        absl::StrCat(path, ", which names the images, does not have its checksum"));
  }
  return images;
}

// Says how far a replay is, from time to time.
class Progress {
 public:
  Progress(const Clock& clock, uint64_t image_lsn, uint64_t durable)
      : clock_(clock), image_lsn_(image_lsn), durable_(durable), last_(clock.Now()) {}

  void Replayed(uint64_t lsn) {
    if (clock_.Now() - last_ < kProgressInterval) return;
    last_ = clock_.Now();
    LogInfo("replaying the command log",
            {{"from", image_lsn_ + 1}, {"now", lsn}, {"to_at_least", durable_}});
  }

 private:
  const Clock& clock_;
  const uint64_t image_lsn_;
  const uint64_t durable_;
  absl::Duration last_;
};

// Equal for equal rows: what was written, and what came back.
std::string DigestText(const ShardCore& core) { return absl::StrFormat("%016x", core.Digest()); }

CommandLogOptions LogOptions(const DurableStateOptions& options) {
  CommandLogOptions log;
  log.storage = options.storage;
  log.reserve = options.reserve;
  log.clock = options.clock;
  if (options.durability.mode == Durability::kLogPeriodic) {
    log.sync_interval = options.durability.sync_interval;
  }
  return log;
}

// Images and half-written ones that CURRENT does not name.
absl::Status RemoveOthers(const std::string& directory, const std::vector<uint64_t>& images) {
  std::vector<fs::path> doomed;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    const bool named = std::any_of(images.begin(), images.end(),
                                   [&](uint64_t lsn) { return ImageName(lsn) == name; });
    if (!named && absl::StartsWith(name, kImage)) doomed.push_back(entry.path());
  }
  for (const fs::path& path : doomed) RETURN_IF_ERROR(RemoveAll(path));
  return absl::OkStatus();
}

// The newest image that is whole.
absl::StatusOr<std::unique_ptr<ShardCore>> LoadNewest(const std::string& directory,
                                                      const std::vector<uint64_t>& images,
                                                      const DurableState::MakeCore& make_core,
                                                      Recovery& recovery) {
  absl::Status first_failure;
  for (const uint64_t lsn : images) {
    std::unique_ptr<ShardCore> core = make_core();
    absl::StatusOr<uint64_t> loaded = LoadImage(ImagePath(directory, lsn), *core);
    if (loaded.ok() && *loaded != lsn) {
      loaded = absl::DataLossError(
          absl::StrCat(ImagePath(directory, lsn), " is the image of record ", *loaded));
    }
    if (loaded.ok()) {
      recovery.image_lsn = lsn;
      return core;
    }
    // Of another version, too: an older image and the log would do, but only until the newer image
    // was removed for damaged.
    if (!absl::IsDataLoss(loaded.status())) return loaded.status();
    LogError("an image is damaged",
             {{"path", ImagePath(directory, lsn)}, {"error", loaded.status().message()}});
    ++recovery.damaged_images;
    first_failure.Update(loaded.status());
  }
  return first_failure;
}

// Applies what came after the image.
absl::StatusOr<std::unique_ptr<CommandLog>> OpenAndReplay(const std::string& directory,
                                                          const DurableStateOptions& options,
                                                          ShardCore& core, Recovery& recovery) {
  ASSIGN_OR_RETURN(const HighWater mark, HighWaterFile::Read(HighWaterPath(directory)));
  Progress progress(*options.clock, recovery.image_lsn, mark.durable);
  const auto replay = [&](const LogRecord& record) -> absl::Status {
    if (record.lsn <= recovery.image_lsn) return absl::OkStatus();
    if (record.lsn != recovery.image_lsn + 1 + static_cast<uint64_t>(recovery.replayed)) {
      return absl::DataLossError(absl::StrCat("the log begins at record ", record.lsn,
                                              ", the image ends at ", recovery.image_lsn));
    }
    ++recovery.replayed;
    recovery.replayed_bytes += static_cast<int64_t>(record.payload.size());
    progress.Replayed(record.lsn);
    DSLIDE_FAILPOINT("shard.restore.replaying");
    absl::Status replayed = ReplayRecord(record, core);
    if (replayed.ok()) return replayed;
    return absl::Status(
        absl::IsFailedPrecondition(replayed) ? replayed.code() : absl::StatusCode::kDataLoss,
        absl::StrCat("record ", record.lsn, ": ", replayed.message()));
  };
  ASSIGN_OR_RETURN(std::unique_ptr<CommandLog> log,
                   CommandLog::Open(directory, LogOptions(options), replay));
  recovery.last_lsn = log->appended();
  if (recovery.last_lsn < recovery.image_lsn) {
    return absl::DataLossError(absl::StrCat("the log ends at record ", recovery.last_lsn,
                                            ", the image at ", recovery.image_lsn,
                                            ": what came after it is lost"));
  }
  return log;
}

}  // namespace

absl::Status ReplayRecord(const LogRecord& record, ShardCore& core) {
  const auto kind = static_cast<wire::LoggedKind>(record.kind);
  if (kind == wire::LoggedKind::kRebuild) {
    core.RebuildTables();
    return absl::OkStatus();
  }
  if (kind == wire::LoggedKind::kSettle) {
    core.SettleTables();
    return absl::OkStatus();
  }
  if (kind == wire::LoggedKind::kLimits) {
    ASSIGN_OR_RETURN(const CoreLimits limits, DecodeLimits(record.payload));
    core.SetLimits(limits);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(Command command, wire::DecodeLogged(kind, record.payload));
  core.Apply(std::move(command));
  return absl::OkStatus();
}

bool DurableState::Exists(const std::string& data_dir) {
  std::error_code error;
  return fs::exists(fs::path(data_dir) / kDirectory, error);
}

std::string DurableState::DirectoryIn(const std::string& data_dir) {
  return (fs::path(data_dir) / kDirectory).string();
}

std::string DurableState::ImagePathIn(const std::string& data_dir, uint64_t lsn) {
  return ImagePath(DirectoryIn(data_dir), lsn);
}

absl::StatusOr<std::vector<uint64_t>> DurableState::Images(const std::string& data_dir) {
  return ReadCurrent(DirectoryIn(data_dir));
}

absl::StatusOr<std::unique_ptr<DurableState>> DurableState::Restore(
    const std::string& data_dir, const DurableStateOptions& options, const MakeCore& make_core,
    std::unique_ptr<ShardCore>* core) {
  const std::string directory = DirectoryIn(data_dir);
  const absl::Duration start = options.clock->Now();
  Recovery recovery;
  ASSIGN_OR_RETURN(std::vector<uint64_t> images, ReadCurrent(directory));
  ASSIGN_OR_RETURN(*core, LoadNewest(directory, images, make_core, recovery));
  DSLIDE_FAILPOINT("shard.restore.loaded");
  ASSIGN_OR_RETURN(std::unique_ptr<CommandLog> log,
                   OpenAndReplay(directory, options, **core, recovery));
  DSLIDE_FAILPOINT("shard.restore.replayed");
  // A damaged image is not offered again.
  images.erase(images.begin(), images.begin() + recovery.damaged_images);
  RETURN_IF_ERROR(ReplaceFile(CurrentPath(directory), EncodeCurrent(images)));
  RETURN_IF_ERROR(RemoveOthers(directory, images));
  recovery.duration = options.clock->Now() - start;
  LogInfo("state restored", {{"path", directory},
                             {"image", recovery.image_lsn},
                             {"last", recovery.last_lsn},
                             {"replayed", recovery.replayed},
                             {"damaged_images", recovery.damaged_images},
                             {"torn_end", log->found().torn ? "yes" : "no"},
                             {"digest", DigestText(**core)},
                             {"duration", absl::FormatDuration(recovery.duration)}});
  std::unique_ptr<DurableState> state(
      new DurableState(directory, options, std::move(log), std::move(images)));
  state->recovery_ = recovery;
  // What was replayed now would be replayed again.
  state->bytes_at_image_ = -recovery.replayed_bytes;
  return state;
}

absl::StatusOr<std::unique_ptr<DurableState>> DurableState::Create(
    const std::string& data_dir, const DurableStateOptions& options, const ShardCore& core) {
  const fs::path directory = fs::path(data_dir) / kDirectory;
  const fs::path unfinished = fs::path(data_dir) / kUnfinished;
  RETURN_IF_ERROR(RemoveAll(unfinished));
  RETURN_IF_ERROR(MakeDirectory(unfinished));
  RETURN_IF_ERROR(CommandLog::Create(unfinished.string(), LogOptions(options)));
  RETURN_IF_ERROR(WriteImage(ImagePath(unfinished.string(), 0), 0, core));
  RETURN_IF_ERROR(ReplaceFile(CurrentPath(unfinished.string()), EncodeCurrent({0})));
  RETURN_IF_ERROR(SyncDirectory(unfinished));
  DSLIDE_FAILPOINT("shard.state.made");
  RETURN_IF_ERROR(Rename(unfinished, directory));
  DSLIDE_FAILPOINT("shard.state.renamed");
  RETURN_IF_ERROR(SyncDirectory(data_dir));
  ASSIGN_OR_RETURN(std::unique_ptr<CommandLog> log,
                   CommandLog::Open(directory.string(), LogOptions(options)));
  return std::unique_ptr<DurableState>(
      new DurableState(directory.string(), options, std::move(log), {0}));
}

absl::Status DurableState::Remove(const std::string& data_dir) {
  const fs::path unfinished = fs::path(data_dir) / kUnfinished;
  RETURN_IF_ERROR(RemoveAll(unfinished));
  RETURN_IF_ERROR(Rename(fs::path(data_dir) / kDirectory, unfinished));
  RETURN_IF_ERROR(SyncDirectory(data_dir));
  return RemoveAll(unfinished);
}

DurableState::DurableState(std::string directory, DurableStateOptions options,
                           std::unique_ptr<CommandLog> log, std::vector<uint64_t> images)
    : directory_(std::move(directory)),
      options_(std::move(options)),
      log_(std::move(log)),
      images_(std::move(images)) {
  recovery_.last_lsn = log_->appended();
}

absl::Status DurableState::Begin(CommandLogHooks hooks, const CoreLimits& limits, ShardCore& core) {
  DSLIDE_FAILPOINT("shard.log.starting");
  log_->Start(std::move(hooks));
  const std::string bytes = EncodeLimits(limits);
  const absl::string_view payload = bytes;
  RETURN_IF_ERROR(log_->Append(static_cast<uint8_t>(wire::LoggedKind::kLimits),
                               absl::MakeConstSpan(&payload, 1))
                      .status());
  core.SetLimits(limits);
  return absl::OkStatus();
}

DurableState::~DurableState() {
  if (writing_ == nullptr) return;
  writing_->snapshot->Abandon();
  writing_->thread.join();
}

void DurableState::MaybeTakeImage(ShardCore& core) {
  const auto report = [this](const absl::Status& status) {
    if (status.ok()) return;
    LogError("cannot write an image; the log grows on",
             {{"path", directory_}, {"error", status.message()}});
  };
  if (writing_ != nullptr) {
    if (writing_->over) report(EndImage());
    return;
  }
  const int64_t bytes = log_->appended_bytes();
  if (bytes - bytes_at_image_ < options_.durability.image_every_bytes) return;
  // A cluster checkpoint is being written: later.
  if (ShardSnapshot::Active(core)) return;
  // Hash tables are being made, for which the image would wait: a few steps later, but not for
  // ever. By steps, not by how far they are: equal commands have to give equal states.
  const int64_t latest = bytes_at_image_ + 3 * options_.durability.image_every_bytes / 2;
  if (core.building() && bytes < latest) return;
  bytes_at_image_ = bytes;
  report(BeginImage(core));
}

absl::Status DurableState::BeginImage(ShardCore& core) {
  auto writing = std::make_unique<Writing>();
  writing->start = options_.clock->Now();
  ASSIGN_OR_RETURN(writing->lsn, SettleTables(core));
  const std::string path = ImagePath(directory_, writing->lsn);
  RETURN_IF_ERROR(RemoveAll(path));
  writing->snapshot = ShardSnapshot::Take(writing->lsn, core);
  DSLIDE_FAILPOINT("shard.image.taken");
  writing_ = std::move(writing);
  writing_->thread = std::thread([this, path] {
    writing_->result = writing_->snapshot->Write(path).status();
    DSLIDE_FAILPOINT("shard.image.written");
    if (!writing_->result.ok()) writing_->snapshot->Abandon();
    // A log that ends before its image would be taken for a damaged one.
    if (writing_->result.ok()) writing_->result = log_->Sync();
    writing_->over = true;
    if (options_.on_written) options_.on_written();
  });
  return absl::OkStatus();
}

absl::Status DurableState::EndImage() {
  if (writing_ == nullptr) return absl::OkStatus();
  writing_->thread.join();
  const std::unique_ptr<Writing> written = std::move(writing_);
  written->snapshot->Release();
  if (!written->result.ok()) {
    RemoveAll(ImagePath(directory_, written->lsn)).IgnoreError();
    return written->result;
  }
  const absl::Duration took = options_.clock->Now() - written->start;
  LogInfo("image written", {{"path", ImagePath(directory_, written->lsn)},
                            {"duration", absl::FormatDuration(took)}});
  if (options_.on_image) options_.on_image(took);
  return Publish(written->lsn, kKeptImages);
}

absl::Status DurableState::TakeImage(ShardCore& core) {
  EndImage().IgnoreError();
  return log_->appended() == images_.front() ? absl::OkStatus() : WriteImageNow(core, kKeptImages);
}

absl::Status DurableState::ForceImage(ShardCore& core) { return WriteImageNow(core, /*kept=*/1); }

absl::StatusOr<uint64_t> DurableState::SettleTables(ShardCore& core) {
  ASSIGN_OR_RETURN(const uint64_t lsn,
                   log_->Append(static_cast<uint8_t>(wire::LoggedKind::kSettle), {}));
  core.SettleTables();
  return lsn;
}

absl::Status DurableState::WriteImageNow(ShardCore& core, size_t kept) {
  // An older one that could not be written is no loss.
  EndImage().IgnoreError();
  const absl::Duration start = options_.clock->Now();
  ASSIGN_OR_RETURN(const uint64_t lsn, SettleTables(core));
  // A log that ends before its image would be taken for a damaged one.
  RETURN_IF_ERROR(log_->Sync());
  DSLIDE_FAILPOINT("shard.image.forced");
  RETURN_IF_ERROR(WriteImageAt(lsn, core, kept));
  const absl::Duration duration = options_.clock->Now() - start;
  if (options_.on_image) options_.on_image(duration);
  LogInfo("image written", {{"path", ImagePath(directory_, lsn)},
                            {"digest", DigestText(core)},
                            {"duration", absl::FormatDuration(duration)}});
  return absl::OkStatus();
}

absl::Status DurableState::WriteImageAt(uint64_t lsn, const ShardCore& core, size_t kept) {
  // Under its own name at once: only CURRENT says that it counts.
  const std::string path = ImagePath(directory_, lsn);
  RETURN_IF_ERROR(RemoveAll(path));
  if (absl::Status written = WriteImage(path, lsn, core); !written.ok()) {
    RemoveAll(path).IgnoreError();
    return written;
  }
  return Publish(lsn, kept);
}

absl::Status DurableState::Publish(uint64_t lsn, size_t kept) {
  RETURN_IF_ERROR(SyncDirectory(directory_));
  DSLIDE_FAILPOINT("shard.image.named");
  std::vector<uint64_t> images = images_;
  images.insert(images.begin(), lsn);
  if (images.size() > kept) images.resize(kept);
  RETURN_IF_ERROR(ReplaceFile(CurrentPath(directory_), EncodeCurrent(images)));
  DSLIDE_FAILPOINT("shard.image.counts");
  images_ = std::move(images);
  RETURN_IF_ERROR(RemoveOthers(directory_, images_));
  DSLIDE_FAILPOINT("shard.image.others_removed");
  return log_->Trim(images_.back() + 1);
}

}  // namespace dslide::shard
