#include "services/shard/durability/durable_gauges.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "services/shard/durability/log_directory.h"

namespace dslide::shard {
namespace {

namespace fs = std::filesystem;

constexpr absl::Duration kFreshEnough = absl::Seconds(1);

int64_t BytesUnder(const fs::path& root) {
  int64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(root, error), end; !error && entry != end;
       entry.increment(error)) {
    struct stat file {};
    if (::stat(entry->path().c_str(), &file) == 0 && S_ISREG(file.st_mode)) bytes += file.st_size;
  }
  return bytes;
}

// When an image was written: its part that is not rows is written last, and never again.
absl::Time WrittenAt(const fs::path& image) {
  struct stat file {};
  if (::stat((image / "state").c_str(), &file) != 0) return absl::InfinitePast();
  return absl::TimeFromTimespec(file.st_mtim);
}

}  // namespace

DurableFootprint MeasureFootprint(const std::string& data_dir) {
  DurableFootprint footprint;
  const std::string directory = LogDirectory::PathIn(data_dir);
  footprint.log_bytes = BytesUnder(fs::path(directory) / "records");
  std::error_code error;
  const auto mark_bytes = fs::file_size(fs::path(directory) / "high-water", error);
  if (!error) footprint.log_bytes += static_cast<int64_t>(mark_bytes);
  const absl::StatusOr<std::vector<LogImage>> images = LogDirectory::Images(data_dir);
  if (!images.ok()) return footprint;
  for (const LogImage& image : *images) {
    const fs::path path = LogDirectory::ImagePathIn(data_dir, image);
    footprint.image_bytes += BytesUnder(path);
    ++footprint.images;
    if (footprint.images > 1) continue;
    footprint.image_lsn = image.lsn;
    footprint.image_time = WrittenAt(path);
  }
  return footprint;
}

DurableGauges::DurableGauges(Metrics& metrics, const DurableState& state, std::string data_dir,
                             const Clock& clock)
    : metrics_(metrics), state_(state), data_dir_(std::move(data_dir)), clock_(clock) {
  AddLog();
  AddImages();
  AddRecovery();
}

DurableGauges::~DurableGauges() { metrics_.RemoveCallbacks(this); }

DurableFootprint DurableGauges::Footprint() {
  const absl::MutexLock lock(&mu_);
  if (clock_.Now() - measured_ > kFreshEnough) {
    footprint_ = MeasureFootprint(data_dir_);
    measured_ = clock_.Now();
  }
  return footprint_;
}

void DurableGauges::AddLog() {
  metrics_.AddGaugeCallback(this, "dslide_shard_log_newest_lsn",
                            "Number of the newest record of the command log.", {},
                            [this] { return static_cast<double>(state_.log().appended()); });
  metrics_.AddGaugeCallback(this, "dslide_shard_log_durable_lsn",
                            "Number of the newest record that is on the disk for certain.", {},
                            [this] { return static_cast<double>(state_.log().durable()); });
  metrics_.AddCounterCallback(
      this, "dslide_shard_log_appended_bytes_total", "Bytes appended to the command log.", {},
      [this] { return static_cast<double>(state_.log().appended_bytes()); });
  metrics_.AddGaugeCallback(this, "dslide_shard_log_bytes",
                            "Size of the command log's files on the disk.", {},
                            [this] { return static_cast<double>(Footprint().log_bytes); });
}

void DurableGauges::AddImages() {
  metrics_.AddGaugeCallback(this, "dslide_shard_image_bytes",
                            "Size of the images of the whole state on the disk.", {},
                            [this] { return static_cast<double>(Footprint().image_bytes); });
  metrics_.AddGaugeCallback(this, "dslide_shard_images", "Images of the whole state on the disk.",
                            {}, [this] { return static_cast<double>(Footprint().images); });
  metrics_.AddGaugeCallback(this, "dslide_shard_image_lsn",
                            "Number of the last record that the newest image holds.", {},
                            [this] { return static_cast<double>(Footprint().image_lsn); });
  metrics_.AddGaugeCallback(
      this, "dslide_shard_image_age_seconds", "Time since the newest image was written.", {},
      [this] { return absl::ToDoubleSeconds(absl::Now() - Footprint().image_time); });
}

void DurableGauges::AddRecovery() {
  const Recovery& recovery = state_.recovery();
  metrics_
      .AddGauge("dslide_shard_recovery_replayed_records",
                "Records of the command log that the start of this process replayed.")
      .Set(static_cast<double>(recovery.replayed));
  metrics_
      .AddGauge("dslide_shard_recovery_damaged_images",
                "Damaged images that the start of this process passed over for an older one.")
      .Set(static_cast<double>(recovery.damaged_images));
  metrics_
      .AddGauge("dslide_shard_recovery_seconds",
                "Time that the start of this process took to restore its state.")
      .Set(absl::ToDoubleSeconds(recovery.duration));
}

}  // namespace dslide::shard
