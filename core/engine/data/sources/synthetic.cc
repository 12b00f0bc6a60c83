#include "core/engine/data/sources/synthetic.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/counter_rng.h"
#include "core/base/ids.h"
#include "core/base/status_macros.h"
#include "core/engine/data/epoch_order.h"
#include "core/engine/data/file_output.h"

namespace dslide {
namespace {

constexpr int64_t kGeneratedPoints = 512;
constexpr int64_t kBlocksPerThread = 8;
// Of a point's further labels, this part are companions of its first; of its features, this part
// are characteristic of its labels.
constexpr float kCompanionPart = 0.6f;
constexpr float kCharacteristicPart = 0.75f;
constexpr uint64_t kCompanions = 8;  // of each label

// Parts of the seed.
enum : uint64_t { kPointPart = 1, kLabelIdPart, kFeatureIdPart, kCompanionIdPart, kTraitPart };

// Ranks 0 .. size - 1 with probability falling about as 1 / (rank + offset): an octave
// [offset * 2^k, offset * 2^(k + 1)) - offset is drawn uniformly, then a rank in it. Whole numbers
// only, so that all machines draw the same.
class PowerLaw {
 public:
  explicit PowerLaw(int64_t size)
      : size_(static_cast<uint64_t>(size)),
        offset_(std::clamp<uint64_t>(static_cast<uint64_t>(size) / 50, 1, 20)) {
    while ((offset_ << octaves_) < size_ + offset_) ++octaves_;
  }

  uint64_t Draw(CounterRng* rng) const {
    while (true) {
      const uint64_t low = offset_ << rng->NextBelow(octaves_);
      const uint64_t rank = low + rng->NextBelow(low) - offset_;
      if (rank < size_) return rank;
    }
  }

 private:
  uint64_t size_;
  uint64_t offset_;
  uint64_t octaves_ = 0;
};

// A whole number with the given mean, between mean * (1 - spread) and mean * (1 + spread) or so.
int64_t DrawCount(double mean, double spread, CounterRng* rng) {
  const double target = (mean - 1.0) * (1.0 + spread * (2.0 * rng->NextUniform() - 1.0));
  const double whole = static_cast<double>(static_cast<int64_t>(target));
  const bool one_more = rng->NextUniform() < static_cast<float>(target - whole);
  return 1 + static_cast<int64_t>(whole) + (one_more ? 1 : 0);
}

class Generator {
 public:
  explicit Generator(const SyntheticOptions& options)
      : options_(options),
        label_ranks_(options.labels),
        feature_ranks_(options.features),
        label_ids_(options.labels, DeriveKey(options.seed, kLabelIdPart)),
        feature_ids_(options.features, DeriveKey(options.seed, kFeatureIdPart)),
        traits_(static_cast<uint64_t>(
            std::max<int64_t>(4, static_cast<int64_t>(options.features_per_point / 2)))) {}

  // Appends the line of one point of the endless sequence.
  void AppendPoint(int64_t point, std::string* text) const {
    CounterRng rng(DeriveKey(DeriveKey(options_.seed, kPointPart), static_cast<uint64_t>(point)));
    std::vector<uint64_t> labels;
    DrawLabels(&rng, &labels);
    std::vector<std::pair<uint64_t, int>> inputs;
    DrawInputs(labels, &rng, &inputs);
    std::sort(labels.begin(), labels.end());
    std::sort(inputs.begin(), inputs.end());
    for (size_t i = 0; i < labels.size(); ++i) absl::StrAppend(text, i == 0 ? "" : ",", labels[i]);
    for (const auto& [id, value] : inputs) absl::StrAppend(text, " ", id, ":", value);
    *text += '\n';
  }

 private:
  uint64_t LabelOfRank(uint64_t rank) const {
    return static_cast<uint64_t>(label_ids_.Map(static_cast<int64_t>(rank)));
  }

  // One of the labels that often come with `label`.
  uint64_t CompanionOf(uint64_t label, uint64_t which) const {
    CounterRng rng(
        DeriveKey(DeriveKey(options_.seed, kCompanionIdPart), label * kCompanions + which));
    return LabelOfRank(label_ranks_.Draw(&rng));
  }

  // One of the features that mark `label`.
  uint64_t TraitOf(uint64_t label, uint64_t which) const {
    return CounterBits(DeriveKey(options_.seed, kTraitPart), label * traits_ + which) %
           static_cast<uint64_t>(options_.features);
  }

  void DrawLabels(CounterRng* rng, std::vector<uint64_t>* labels) const {
    const size_t count = static_cast<size_t>(DrawCount(options_.labels_per_point, 1.0, rng));
    labels->push_back(LabelOfRank(label_ranks_.Draw(rng)));
    // Draws that repeat a label are lost; after enough of them, ids next to the last are taken.
    for (size_t attempt = 0; labels->size() < count; ++attempt) {
      uint64_t label = 0;
      if (attempt >= 8 * count) {
        label = (labels->back() + 1) % static_cast<uint64_t>(options_.labels);
        while (Contains(*labels, label))
          label = (label + 1) % static_cast<uint64_t>(options_.labels);
      } else if (rng->NextUniform() < kCompanionPart) {
        label = CompanionOf(labels->front(), rng->NextBelow(kCompanions));
      } else {
        label = LabelOfRank(label_ranks_.Draw(rng));
      }
      if (!Contains(*labels, label)) labels->push_back(label);
    }
  }

  void DrawInputs(const std::vector<uint64_t>& labels, CounterRng* rng,
                  std::vector<std::pair<uint64_t, int>>* inputs) const {
    const size_t count = static_cast<size_t>(DrawCount(options_.features_per_point, 0.5, rng));
    const uint64_t features = static_cast<uint64_t>(options_.features);
    const auto known = [&](uint64_t id) {
      return std::any_of(inputs->begin(), inputs->end(),
                         [&](const auto& input) { return input.first == id; });
    };
    for (size_t attempt = 0; inputs->size() < count; ++attempt) {
      uint64_t id = 0;
      int value = 1;
      if (attempt >= 8 * count) {
        id = (inputs->back().first + 1) % features;
        while (known(id)) id = (id + 1) % features;
      } else if (rng->NextUniform() < kCharacteristicPart) {
        id = TraitOf(labels[rng->NextBelow(labels.size())], rng->NextBelow(traits_));
        value = 1 + static_cast<int>(rng->NextBelow(3));
      } else {
        id =
            static_cast<uint64_t>(feature_ids_.Map(static_cast<int64_t>(feature_ranks_.Draw(rng))));
      }
      if (!known(id)) inputs->emplace_back(id, value);
    }
  }

  static bool Contains(const std::vector<uint64_t>& ids, uint64_t id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  }

  const SyntheticOptions options_;
  const PowerLaw label_ranks_;
  const PowerLaw feature_ranks_;
  const IndexPermutation label_ids_;    // rank -> id: popular labels lie anywhere
  const IndexPermutation feature_ids_;  // the same for the features of the noise
  const uint64_t traits_;               // characteristic features of a label
};

absl::Status OutOfRange(absl::string_view field, double value, double low, double high) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, " ", value, " is outside [", low, ", ", high, "]"));
}

}  // namespace

absl::Status SyntheticOptions::Validate() const {
  constexpr int64_t kMaxPoints = int64_t{1} << 48;
  const auto check = [](absl::string_view field, int64_t value, int64_t low, int64_t high) {
    if (value >= low && value <= high) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(field, " ", value, " is outside [", low, ", ", high, "]"));
  };
  RETURN_IF_ERROR(check("points", points, 1, kMaxPoints));
  RETURN_IF_ERROR(check("first_point", first_point, 0, kMaxPoints));
  RETURN_IF_ERROR(check("features", features, 16, kMaxTableRows));
  RETURN_IF_ERROR(check("labels", labels, 2, kMaxTableRows));
  // A point's ids are told apart by a linear search, so they must stay few.
  const double max_features = std::min(static_cast<double>(features) / 2, 10000.0);
  if (!(features_per_point >= 1 && features_per_point <= max_features)) {
    return OutOfRange("features_per_point", features_per_point, 1, max_features);
  }
  const double max_labels = std::min(static_cast<double>(labels) / 2, 10000.0);
  if (!(labels_per_point >= 1 && labels_per_point <= max_labels)) {
    return OutOfRange("labels_per_point", labels_per_point, 1, max_labels);
  }
  return absl::OkStatus();
}

absl::Status GenerateSynthetic(const SyntheticOptions& options, const std::string& path) {
  RETURN_IF_ERROR(options.Validate());
  const Generator generator(options);
  ASSIGN_OR_RETURN(FileOutput out, FileOutput::Create(path));
  RETURN_IF_ERROR(
      out.Append(absl::StrCat(options.points, " ", options.features, " ", options.labels, "\n")));
  const int64_t blocks = (options.points + kGeneratedPoints - 1) / kGeneratedPoints;
  const int64_t wave = std::max(1, options.parallelism.threads) * kBlocksPerThread;
  std::vector<std::string> texts(static_cast<size_t>(wave));
  for (int64_t first = 0; first < blocks; first += wave) {
    const int64_t count = std::min(wave, blocks - first);
    ParallelFor(options.parallelism, count, 1, [&](int64_t i, int) {
      std::string* text = &texts[static_cast<size_t>(i)];
      text->clear();
      const int64_t begin = (first + i) * kGeneratedPoints;
      const int64_t end = std::min(options.points, begin + kGeneratedPoints);
      for (int64_t point = begin; point < end; ++point) {
        generator.AppendPoint(options.first_point + point, text);
      }
    });
    for (int64_t i = 0; i < count; ++i) {
      RETURN_IF_ERROR(out.Append(texts[static_cast<size_t>(i)]));
    }
  }
  return out.Commit();
}

}  // namespace dslide
