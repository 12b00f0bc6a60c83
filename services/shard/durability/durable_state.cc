#include "services/shard/durability/durable_state.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"
#include "core/system/failpoint.h"
#include "core/system/log.h"
#include "core/wire/log/logged_command.h"
#include "services/common/files/durable_files.h"
#include "services/shard/image/shard_image.h"
#include "services/shard/state/core_state.h"

namespace dslide::shard {
namespace {

namespace fs = std::filesystem;

constexpr char kDirectory[] = "command_log";
constexpr char kUnfinished[] = ".tmp-command_log";
constexpr char kImagesDirectory[] = "images";
constexpr size_t kKeptImages = 2;
constexpr absl::Duration kProgressInterval = absl::Seconds(5);

std::string ImagesIn(const std::string& directory) {
  return absl::StrCat(directory, "/", kImagesDirectory);
}

std::string ImagePath(const std::string& directory, const LogImage& image) {
  return absl::StrCat(ImagesIn(directory), "/", LogLabel(image));
}

// The images that count, newest first.
absl::StatusOr<std::vector<LogImage>> ImagesOf(const std::string& directory) {
  std::vector<LogImage> images;
  // By root and record, as their labels.
  for (const std::string& label : ImageStore::LabelsIn(ImagesIn(directory))) {
    const std::optional<LogImage> image = LogImageOf(label);
    if (!image.has_value()) continue;
    if (!images.empty() && images.front().root != image->root) images.clear();
    images.insert(images.begin(), *image);
  }
  if (!images.empty()) return images;
  return absl::DataLossError(absl::StrCat(ImagesIn(directory), " has no image: all are missing"));
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

absl::Status RemoveOthers(ImageStore& store, const std::vector<LogImage>& images) {
  for (const std::string& label : store.Labels()) {
    const bool kept = std::any_of(images.begin(), images.end(),
                                  [&](const LogImage& image) { return LogLabel(image) == label; });
    if (!kept) RETURN_IF_ERROR(store.Remove(label));
  }
  return absl::OkStatus();
}

// The newest image that is whole.
absl::StatusOr<std::unique_ptr<ShardCore>> LoadNewest(const std::string& directory,
                                                      const std::vector<LogImage>& images,
                                                      const DurableState::MakeCore& make_core,
                                                      Recovery& recovery) {
  absl::Status first_failure;
  for (const LogImage& image : images) {
    const std::string path = ImagePath(directory, image);
    std::unique_ptr<ShardCore> core = make_core();
    absl::StatusOr<uint64_t> loaded = LoadImage(path, *core);
    if (loaded.ok() && *loaded != image.lsn) {
      loaded = absl::DataLossError(absl::StrCat(path, " is the image of record ", *loaded));
    }
    if (loaded.ok()) {
      recovery.image_lsn = image.lsn;
      return core;
    }
    // Of another version, too: an older image and the log would do, but only until the newer image
    // was removed for damaged.
    if (!absl::IsDataLoss(loaded.status())) return loaded.status();
    LogError("an image is damaged", {{"path", path}, {"error", loaded.status().message()}});
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

std::string DurableState::ImagePathIn(const std::string& data_dir, const LogImage& image) {
  return ImagePath(DirectoryIn(data_dir), image);
}

absl::StatusOr<std::vector<LogImage>> DurableState::Images(const std::string& data_dir) {
  return ImagesOf(DirectoryIn(data_dir));
}

absl::StatusOr<std::unique_ptr<DurableState>> DurableState::Restore(
    const std::string& data_dir, const DurableStateOptions& options, const MakeCore& make_core,
    std::unique_ptr<ShardCore>* core) {
  const std::string directory = DirectoryIn(data_dir);
  const absl::Duration start = options.clock->Now();
  Recovery recovery;
  ASSIGN_OR_RETURN(std::vector<LogImage> images, ImagesOf(directory));
  ASSIGN_OR_RETURN(*core, LoadNewest(directory, images, make_core, recovery));
  DSLIDE_FAILPOINT("shard.restore.loaded");
  ASSIGN_OR_RETURN(std::unique_ptr<CommandLog> log,
                   OpenAndReplay(directory, options, **core, recovery));
  DSLIDE_FAILPOINT("shard.restore.replayed");
  // A damaged image is not offered again.
  images.erase(images.begin(), images.begin() + recovery.damaged_images);
  if (images.size() > kKeptImages) images.resize(kKeptImages);
  ASSIGN_OR_RETURN(std::unique_ptr<ImageStore> store, ImageStore::Open(ImagesIn(directory)));
  RETURN_IF_ERROR(RemoveOthers(*store, images));
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
      new DurableState(options, std::move(log), std::move(store), std::move(images)));
  state->recovery_ = recovery;
  // What was replayed now would be replayed again.
  state->bytes_at_image_ = -recovery.replayed_bytes;
  return state;
}

absl::StatusOr<std::unique_ptr<DurableState>> DurableState::Create(
    const std::string& data_dir, const DurableStateOptions& options, const ShardCore& core) {
  const std::string directory = DirectoryIn(data_dir);
  const std::string unfinished = (fs::path(data_dir) / kUnfinished).string();
  constexpr LogImage kFirst = {};
  RETURN_IF_ERROR(RemoveAll(unfinished));
  RETURN_IF_ERROR(MakeDirectory(unfinished));
  RETURN_IF_ERROR(CommandLog::Create(unfinished, LogOptions(options)));
  ASSIGN_OR_RETURN(std::unique_ptr<ImageStore> store, ImageStore::Open(ImagesIn(unfinished)));
  RETURN_IF_ERROR(store->Publish(LogLabel(kFirst), [&](const std::string& image) {
    return WriteImage(image, kFirst.lsn, core).status();
  }));
  RETURN_IF_ERROR(SyncDirectory(unfinished));
  DSLIDE_FAILPOINT("shard.state.made");
  RETURN_IF_ERROR(Rename(unfinished, directory));
  DSLIDE_FAILPOINT("shard.state.renamed");
  RETURN_IF_ERROR(SyncDirectory(data_dir));
  ASSIGN_OR_RETURN(std::unique_ptr<CommandLog> log,
                   CommandLog::Open(directory, LogOptions(options)));
  ASSIGN_OR_RETURN(store, ImageStore::Open(ImagesIn(directory)));
  return std::unique_ptr<DurableState>(
      new DurableState(options, std::move(log), std::move(store), {kFirst}));
}

absl::Status DurableState::Remove(const std::string& data_dir) {
  const fs::path unfinished = fs::path(data_dir) / kUnfinished;
  RETURN_IF_ERROR(RemoveAll(unfinished));
  RETURN_IF_ERROR(Rename(fs::path(data_dir) / kDirectory, unfinished));
  RETURN_IF_ERROR(SyncDirectory(data_dir));
  return RemoveAll(unfinished);
}

DurableState::DurableState(DurableStateOptions options, std::unique_ptr<CommandLog> log,
                           std::unique_ptr<ImageStore> store, std::vector<LogImage> images)
    : options_(std::move(options)),
      log_(std::move(log)),
      store_(std::move(store)),
      images_(std::move(images)) {
  recovery_.last_lsn = log_->appended();
}

absl::Status DurableState::Begin(DurableStateHooks hooks, const CoreLimits& limits,
                                 ShardCore& core) {
  DSLIDE_FAILPOINT("shard.log.starting");
  hooks_ = std::move(hooks);
  log_->Start(std::move(hooks_.log));
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
    LogError("cannot write an image; the log grows on", {{"error", status.message()}});
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
  ASSIGN_OR_RETURN(const uint64_t lsn, SettleTables(core));
  writing->image = {.root = images_.front().root, .lsn = lsn};
  writing->snapshot = ShardSnapshot::Take(lsn, core);
  DSLIDE_FAILPOINT("shard.image.taken");
  writing_ = std::move(writing);
  writing_->thread = std::thread([this] {
    const auto write = [this](const std::string& directory) -> absl::Status {
      RETURN_IF_ERROR(writing_->snapshot->Write(directory).status());
      // A log that ends before its image would be taken for a damaged one.
      return log_->Sync();
    };
    writing_->result = store_->Publish(LogLabel(writing_->image), write);
    if (!writing_->result.ok()) writing_->snapshot->Abandon();
    writing_->over = true;
    if (hooks_.on_written) hooks_.on_written();
  });
  return absl::OkStatus();
}

absl::Status DurableState::EndImage() {
  if (writing_ == nullptr) return absl::OkStatus();
  writing_->thread.join();
  const std::unique_ptr<Writing> written = std::move(writing_);
  written->snapshot->Release();
  RETURN_IF_ERROR(written->result);
  const absl::Duration took = options_.clock->Now() - written->start;
  LogInfo("image written", {{"path", store_->PathOf(LogLabel(written->image))},
                            {"duration", absl::FormatDuration(took)}});
  if (hooks_.on_image) hooks_.on_image(took);
  return Retain(written->image);
}

absl::Status DurableState::TakeImage(ShardCore& core) {
  EndImage().IgnoreError();
  return log_->appended() == images_.front().lsn ? absl::OkStatus()
                                                 : WriteImageNow(core, /*is_root=*/false);
}

absl::Status DurableState::ForceImage(ShardCore& core) {
  return WriteImageNow(core, /*is_root=*/true);
}

absl::StatusOr<uint64_t> DurableState::SettleTables(ShardCore& core) {
  ASSIGN_OR_RETURN(const uint64_t lsn,
                   log_->Append(static_cast<uint8_t>(wire::LoggedKind::kSettle), {}));
  core.SettleTables();
  return lsn;
}

absl::Status DurableState::WriteImageNow(ShardCore& core, bool is_root) {
  // An older one that could not be written is no loss.
  EndImage().IgnoreError();
  const absl::Duration start = options_.clock->Now();
  ASSIGN_OR_RETURN(const uint64_t lsn, SettleTables(core));
  // A log that ends before its image would be taken for a damaged one.
  RETURN_IF_ERROR(log_->Sync());
  DSLIDE_FAILPOINT("shard.image.forced");
  const LogImage image{.root = is_root ? lsn : images_.front().root, .lsn = lsn};
  RETURN_IF_ERROR(store_->Publish(LogLabel(image), [&](const std::string& directory) {
    return WriteImage(directory, lsn, core).status();
  }));
  RETURN_IF_ERROR(Retain(image));
  const absl::Duration duration = options_.clock->Now() - start;
  if (hooks_.on_image) hooks_.on_image(duration);
  LogInfo("image written", {{"path", store_->PathOf(LogLabel(image))},
                            {"digest", DigestText(core)},
                            {"duration", absl::FormatDuration(duration)}});
  return absl::OkStatus();
}

absl::Status DurableState::Retain(const LogImage& newest) {
  if (images_.front().root != newest.root) images_.clear();
  images_.insert(images_.begin(), newest);
  if (images_.size() > kKeptImages) images_.resize(kKeptImages);
  RETURN_IF_ERROR(RemoveOthers(*store_, images_));
  DSLIDE_FAILPOINT("shard.image.others_removed");
  return log_->Trim(images_.back().lsn + 1);
}

}  // namespace dslide::shard
