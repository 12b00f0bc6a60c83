// What is another model, and what is only another way to train it.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/spec/model_spec.h"

namespace dslide {

struct SpecDifference {
  std::string field;  // "tables[1].dim"
  std::string known;  // as JSON; "absent" where there is none
  std::string other;
};

// The first field in which two models differ of what their rows and predictions depend on. Jobs of
// one model may differ in the rest: its training but for the transform, and the learning rates and
// schedules of its tables. Retired labels are no difference, either. A table of `other` that has
// fewer rows is equal when it has grown since.
std::optional<SpecDifference> FirstDifference(const ModelSpec& known, const ModelSpec& other);

// The first field in which the trainings of two trainers differ of what they agree on: all but
// in_flight_steps.
std::optional<SpecDifference> FirstDifference(const TrainingSpec& known, const TrainingSpec& other);

// The same of the rates of one table.
std::optional<SpecDifference> FirstDifference(const TableRate& known, const TableRate& other);

// "tables[1].dim is 128, not 64": what `other` would have to become, for an error.
std::string Describe(const SpecDifference& difference);

// The learning rates that a job has which trains a model as its spec says: of its tables of floats.
std::vector<TableRate> RatesOf(const ModelSpec& spec);

}  // namespace dslide
