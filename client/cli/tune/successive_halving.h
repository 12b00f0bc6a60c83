// Which trial a search measures next, and on how many points.
//
// Successive halving (Jamieson and Talwalkar 2016, arXiv:1502.07943), in brackets that follow each
// other until somebody stops (Li et al. 2017, "Hyperband", arXiv:1603.06560, the most aggressive
// bracket). Differs from both: trial 0 is the yardstick. It is measured first in each rung of the
// first bracket, in no other's place, so that the leader is never worse than it.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace dslide::cli {

// Of the trials of a rung, one of so many goes on to the next, which has so many times the points.
inline constexpr int64_t kHalvingEta = 3;

// How many rungs pay: three at most, each with at least one trial beside the first, and at least
// kLeastRungPoints training points in the lowest, where that leaves one.
//   trials : in all, with the first; 0: no end
inline constexpr int64_t kMostRungs = 3;
inline constexpr int64_t kLeastRungPoints = 500;
int64_t RungsFor(int64_t trials, int64_t training_points);

// Training points of a rung: all of them in the highest, a third of them in the one below.
int64_t PointsOfRung(int64_t training_points, int64_t rung, int64_t rungs);

struct TrialAtRung {
  int64_t trial = 0;  // 0: the yardstick
  int64_t rung = 0;   // 0: the fewest points
  friend bool operator==(const TrialAtRung&, const TrialAtRung&) = default;
};

// A pure function of the options and the recorded qualities: it knows no clock and no data.
//
// Thread safety: as a plain struct.
class SuccessiveHalving {
 public:
  struct Options {
    int64_t rungs = kMostRungs;  // >= 1
    // In one bracket, with the first; >= 1. 0: brackets of eta^(rungs - 1) new trials without end.
    int64_t trials = 0;
  };
  struct Measurement {
    TrialAtRung at;
    double quality = 0;  // larger is better
  };

  explicit SuccessiveHalving(Options options);

  // What to measure now; nothing when all is done.
  std::optional<TrialAtRung> Next() const;
  // The quality of Next(), which must be something.
  void Record(double quality);

  // In the order of their recording.
  const std::vector<Measurement>& measured() const { return measured_; }
  // The best trial of the highest rung where another than trial 0 was measured, the smaller number
  // among equals; trial 0 at rung 0 when there is none.
  TrialAtRung Leader() const;
  // Measurements that the present bracket has before it, by rung; [rungs].
  std::vector<int64_t> Left() const;

 private:
  void StartBracket(int64_t trials);
  void Climb();
  // Others than the first that get to a rung.
  int64_t PlacesAt(int64_t rung) const;

  const Options options_;
  int64_t first_ = 0;           // trial of the present bracket
  int64_t end_ = 0;             // behind its last
  int64_t rung_ = 0;            // that is being measured
  std::vector<int64_t> queue_;  // trials of this rung
  size_t next_ = 0;             // in queue_
  std::vector<Measurement> measured_;
};

}  // namespace dslide::cli
