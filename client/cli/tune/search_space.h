// The models that a search tries: the default one and variations of it.

#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "client/cli/train/default_spec.h"
#include "core/spec/model_spec.h"

namespace dslide::cli {

// The settings of one trial. Of an equal space.
struct TrialSettings {
  bool network = false;
  double network_length = 1;   // its passes, in those of the default
  std::vector<double> values;  // of the fields of the spec that the space varies
  friend bool operator==(const TrialSettings&, const TrialSettings&) = default;
};

// Thread safety: immutable.
class SearchSpace {
 public:
  // Around the model that DefaultComponents(shape) gives.
  explicit SearchSpace(const DataShape& shape);

  // Trial 0 is the default; any other differs from it. A pure function of the arguments and the
  // shape.
  TrialSettings Draw(uint64_t seed, int64_t trial) const;

  // The model of a trial that has so many points. Sizes are left to the data, as those of the
  // default are; for settings of Draw() it is valid.
  ModelSpec SpecOf(const TrialSettings& settings, int64_t points) const;

  // What differs from the default, as (name, value): ("linear.cost", 0.5). A setting of a network
  // that the trial does not have is none.
  std::vector<std::pair<std::string, double>> Differences(const TrialSettings& settings) const;

 private:
  // The values that one field is drawn from; its default is always among them.
  std::vector<double> ChoicesFor(size_t field) const;

  const DataShape shape_;
  TrialSettings default_;
};

}  // namespace dslide::cli
