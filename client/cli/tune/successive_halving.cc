#include "client/cli/tune/successive_halving.h"

#include <algorithm>

namespace dslide::cli {
namespace {

int64_t Power(int64_t exponent) {
  int64_t power = 1;
  for (int64_t i = 0; i < exponent; ++i) power *= kHalvingEta;
  return power;
}

bool Better(const SuccessiveHalving::Measurement& a, const SuccessiveHalving::Measurement& b) {
  return a.quality != b.quality ? a.quality > b.quality : a.at.trial < b.at.trial;
}

}  // namespace

int64_t RungsFor(int64_t trials, int64_t training_points) {
  int64_t rungs = 1;
  while (rungs < kMostRungs && training_points / Power(rungs) >= kLeastRungPoints &&
         (trials == 0 || trials - 1 >= Power(rungs))) {
    ++rungs;
  }
  return rungs;
}

int64_t PointsOfRung(int64_t training_points, int64_t rung, int64_t rungs) {
  return std::max<int64_t>(1, training_points / Power(rungs - 1 - rung));
}

SuccessiveHalving::SuccessiveHalving(Options options) : options_(options) {
  StartBracket(options.trials > 0 ? options.trials : 1 + Power(options.rungs - 1));
}

void SuccessiveHalving::StartBracket(int64_t trials) {
  first_ = end_;
  end_ = first_ + trials;
  rung_ = 0;
  next_ = 0;
  queue_.clear();
  for (int64_t trial = first_; trial < end_; ++trial) queue_.push_back(trial);
}

int64_t SuccessiveHalving::PlacesAt(int64_t rung) const {
  const int64_t others = end_ - first_ - (first_ == 0 ? 1 : 0);
  return others == 0 ? 0 : std::max<int64_t>(1, others / Power(rung));
}

void SuccessiveHalving::Climb() {
  std::vector<Measurement> others;
  for (const Measurement& measured : measured_) {
    const TrialAtRung& at = measured.at;
    if (at.rung == rung_ && at.trial >= std::max<int64_t>(first_, 1)) others.push_back(measured);
  }
  std::sort(others.begin(), others.end(), Better);
  ++rung_;
  next_ = 0;
  queue_.clear();
  if (first_ == 0) queue_.push_back(0);
  for (size_t i = 0; i < static_cast<size_t>(PlacesAt(rung_)); ++i) {
    queue_.push_back(others[i].at.trial);
  }
}

std::optional<TrialAtRung> SuccessiveHalving::Next() const {
  if (next_ == queue_.size()) return std::nullopt;
  return TrialAtRung{.trial = queue_[next_], .rung = rung_};
}

void SuccessiveHalving::Record(double quality) {
  measured_.push_back({.at = *Next(), .quality = quality});
  if (++next_ < queue_.size()) return;
  if (rung_ + 1 < options_.rungs) {
    Climb();
  } else if (options_.trials == 0) {
    StartBracket(Power(options_.rungs - 1));
  }
}

TrialAtRung SuccessiveHalving::Leader() const {
  int64_t highest = -1;
  for (const Measurement& measured : measured_) {
    if (measured.at.trial != 0) highest = std::max(highest, measured.at.rung);
  }
  Measurement best = {};
  bool found = false;
  for (const Measurement& measured : measured_) {
    if (measured.at.rung != highest || (found && !Better(measured, best))) continue;
    best = measured;
    found = true;
  }
  return best.at;
}

std::vector<int64_t> SuccessiveHalving::Left() const {
  std::vector<int64_t> left(static_cast<size_t>(options_.rungs));
  if (next_ == queue_.size()) return left;
  left[static_cast<size_t>(rung_)] = static_cast<int64_t>(queue_.size() - next_);
  for (int64_t rung = rung_ + 1; rung < options_.rungs; ++rung) {
    left[static_cast<size_t>(rung)] = PlacesAt(rung) + (first_ == 0 ? 1 : 0);
  }
  return left;
}

}  // namespace dslide::cli
