#include "services/shard/durability/durable_state.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"
#include "core/system/failpoint.h"
#include "core/system/log.h"
#include "core/wire/log/logged_command.h"
#include "services/shard/state/core_state.h"

namespace dslide::shard {
namespace {

constexpr size_t kKeptImages = 2;

// Equal for equal rows: what was written, and what came back.
std::string DigestText(const ShardCore& core) { return absl::StrFormat("%016x", core.Digest()); }

absl::Status RemoveOthers(LabelledImages& store, const std::vector<LogImage>& images) {
  for (const std::string& label : store.Labels()) {
    const bool kept = std::any_of(images.begin(), images.end(),
                                  [&](const LogImage& image) { return LogLabel(image) == label; });
    if (!kept) RETURN_IF_ERROR(store.Remove(label));
  }
  return absl::OkStatus();
}

// The newest image that is whole.
absl::StatusOr<std::unique_ptr<ShardCore>> LoadNewest(const LabelledImages& store,
                                                      const std::vector<LogImage>& images,
                                                      const DurableState::MakeCore& make_core,
                                                      Recovery& recovery) {
  absl::Status first_failure;
  for (const LogImage& image : images) {
    const std::string path = store.PathOf(LogLabel(image));
    std::unique_ptr<ShardCore> core = make_core();
    absl::StatusOr<LoadedImage> loaded = store.Load(LogLabel(image), *core);
    if (loaded.ok() && loaded->lsn != image.lsn) {
      loaded = absl::DataLossError(absl::StrCat(path, " is the image of record ", loaded->lsn));
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
absl::StatusOr<std::unique_ptr<ShardLog>> OpenAndReplay(const DurableStateParts& parts,
                                                        ShardCore& core, Recovery& recovery) {
  const auto replay = [&](const LogRecord& record) -> absl::Status {
    if (record.lsn <= recovery.image_lsn) return absl::OkStatus();
    if (record.lsn != recovery.image_lsn + 1 + static_cast<uint64_t>(recovery.replayed)) {
      return absl::DataLossError(absl::StrCat("the log begins at record ", record.lsn,
                                              ", the image ends at ", recovery.image_lsn));
    }
    ++recovery.replayed;
    if (core.loading() != nullptr) core.loading()->CountRecord();
    recovery.replayed_bytes += static_cast<int64_t>(record.payload.size());
    DSLIDE_FAILPOINT("shard.restore.replaying");
    absl::Status replayed = ReplayRecord(record, core);
    if (replayed.ok()) return replayed;
    return absl::Status(
        absl::IsFailedPrecondition(replayed) ? replayed.code() : absl::StatusCode::kDataLoss,
        absl::StrCat("record ", record.lsn, ": ", replayed.message()));
  };
  ASSIGN_OR_RETURN(std::unique_ptr<ShardLog> log, parts.open_log(replay));
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

absl::StatusOr<std::unique_ptr<DurableState>> DurableState::Create(DurableStateParts parts) {
  ASSIGN_OR_RETURN(std::unique_ptr<ShardLog> log,
                   parts.open_log([](const LogRecord&) { return absl::OkStatus(); }));
  const Recovery recovery{.last_lsn = log->appended()};
  return std::unique_ptr<DurableState>(
      new DurableState(std::move(parts), std::move(log), {LogImage()}, recovery));
}

absl::StatusOr<std::unique_ptr<DurableState>> DurableState::Restore(
    DurableStateParts parts, const MakeCore& make_core, std::unique_ptr<ShardCore>* core) {
  const absl::Duration start = parts.clock->Now();
  LabelledImages& store = *parts.images;
  Recovery recovery;
  ASSIGN_OR_RETURN(std::vector<LogImage> images, CountingImages(store.Labels(), store.PathOf("")));
  ASSIGN_OR_RETURN(*core, LoadNewest(store, images, make_core, recovery));
  DSLIDE_FAILPOINT("shard.restore.loaded");
  ASSIGN_OR_RETURN(std::unique_ptr<ShardLog> log, OpenAndReplay(parts, **core, recovery));
  DSLIDE_FAILPOINT("shard.restore.replayed");
  // A damaged image is not offered again.
  images.erase(images.begin(), images.begin() + recovery.damaged_images);
  if (images.size() > kKeptImages) images.resize(kKeptImages);
  RETURN_IF_ERROR(RemoveOthers(store, images));
  recovery.duration = parts.clock->Now() - start;
  LogInfo("state restored", {{"path", store.PathOf(LogLabel(images.front()))},
                             {"image", recovery.image_lsn},
                             {"last", recovery.last_lsn},
                             {"replayed", recovery.replayed},
                             {"damaged_images", recovery.damaged_images},
                             {"digest", DigestText(**core)},
                             {"duration", absl::FormatDuration(recovery.duration)}});
  return std::unique_ptr<DurableState>(
      new DurableState(std::move(parts), std::move(log), std::move(images), recovery));
}

DurableState::DurableState(DurableStateParts parts, std::unique_ptr<ShardLog> log,
                           std::vector<LogImage> images, const Recovery& recovery)
    : options_(parts.durability),
      clock_(*parts.clock),
      log_(std::move(log)),
      store_(std::move(parts.images)),
      recovery_(recovery),
      images_(std::move(images)),
      // What was replayed now would be replayed again.
      bytes_at_image_(-recovery.replayed_bytes) {}

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
  store_->Wait();
}

void DurableState::MaybeTakeImage(ShardCore& core) {
  const auto report = [](const absl::Status& status) {
    if (status.ok()) return;
    LogError("cannot write an image; the log grows on", {{"error", status.message()}});
  };
  if (writing_ != nullptr) {
    if (writing_->over) report(EndImage());
    return;
  }
  const int64_t bytes = log_->appended_bytes();
  if (bytes - bytes_at_image_ < options_.image_every_bytes) return;
  // A cluster checkpoint is being written: later.
  if (ShardSnapshot::Active(core)) return;
  // Hash tables are being made, for which the image would wait: a few steps later, but not for
  // ever. By steps, not by how far they are: equal commands have to give equal states.
  const int64_t latest = bytes_at_image_ + 3 * options_.image_every_bytes / 2;
  if (core.building() && bytes < latest) return;
  bytes_at_image_ = bytes;
  report(BeginImage(core));
}

absl::Status DurableState::BeginImage(ShardCore& core) {
  auto writing = std::make_unique<Writing>();
  writing->start = clock_.Now();
  ASSIGN_OR_RETURN(const uint64_t lsn, SettleTables(core));
  writing->image = {.root = images_.front().root, .lsn = lsn};
  writing->snapshot = ShardSnapshot::Take(lsn, core);
  DSLIDE_FAILPOINT("shard.image.taken");
  writing_ = std::move(writing);
  store_->Begin({.label = LogLabel(writing_->image),
                 .snapshot = writing_->snapshot.get(),
                 // A log that ends before its image would be taken for a damaged one.
                 .written = [this] { return log_->Sync(); },
                 .over =
                     [this](const absl::StatusOr<ImageSize>& written) {
                       writing_->result = written.status();
                       writing_->over = true;
                       if (hooks_.on_written) hooks_.on_written();
                     }});
  return absl::OkStatus();
}

absl::Status DurableState::EndImage() {
  if (writing_ == nullptr) return absl::OkStatus();
  store_->Wait();
  const std::unique_ptr<Writing> written = std::move(writing_);
  written->snapshot->Release();
  RETURN_IF_ERROR(written->result);
  const absl::Duration took = clock_.Now() - written->start;
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
  const absl::Duration start = clock_.Now();
  ASSIGN_OR_RETURN(const uint64_t lsn, SettleTables(core));
  // A log that ends before its image would be taken for a damaged one.
  RETURN_IF_ERROR(log_->Sync());
  DSLIDE_FAILPOINT("shard.image.forced");
  const LogImage image{.root = is_root ? lsn : images_.front().root, .lsn = lsn};
  RETURN_IF_ERROR(store_->Write(LogLabel(image), lsn, core));
  RETURN_IF_ERROR(Retain(image));
  const absl::Duration duration = clock_.Now() - start;
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
