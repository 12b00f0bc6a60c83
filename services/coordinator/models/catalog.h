// The models the cluster has, by name. A pure state machine.

#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/spec/model_growth.h"
#include "core/spec/model_spec.h"
#include "core/spec/retired_labels.h"

namespace dslide::coordinator {

// Not thread-safe.
class Catalog {
 public:
  // Whether Add would create it: false for an equal model that is here already.
  // Errors: InvalidArgument for an invalid spec or one with open sizes; FailedPrecondition
  // MODEL_DIFFERS for a different one of the name.
  absl::StatusOr<bool> Check(const ModelSpec& spec) const;

  // Adds a checked model; an equal one is left as it is. Errors: those of Check.
  absl::StatusOr<bool> Add(const ModelSpec& spec);

  // Whether the catalog lacks something of a model that a shard holds: all of it, or rows by which
  // it has grown. Errors: those of Check.
  absl::StatusOr<bool> LacksOf(const ModelSpec& held) const;
  // A model as it would be with what a shard holds of it. Requires LacksOf().
  ModelSpec WithHeld(const ModelSpec& held) const;
  // A model as it would be with that. Errors: NotFound UNKNOWN_MODEL; those of GrowSpec().
  absl::StatusOr<ModelSpec> Grown(const std::string& name, const Growth& growth) const;
  // A model as it would be with these labels retired too, or with restore in use again.
  // Errors: NotFound UNKNOWN_MODEL; InvalidArgument OUT_OF_RANGE when it has no such labels, or no
  // others.
  absl::StatusOr<ModelSpec> WithRetiredLabels(const std::string& name, const RetiredLabels& labels,
                                              bool restore) const;
  // Adds it, or puts it in the place of the one of its name.
  void Put(const ModelSpec& spec);

  // Errors: NotFound UNKNOWN_MODEL.
  absl::Status Remove(const std::string& name);

  // Null when there is none.
  const ModelSpec* Find(const std::string& name) const;
  // By name.
  std::vector<ModelSpec> List() const;
  bool empty() const { return models_.empty(); }
  size_t size() const { return models_.size(); }

 private:
  std::map<std::string, ModelSpec> models_;
};

// NotFound UNKNOWN_MODEL, naming it.
absl::Status UnknownModel(const std::string& name);

}  // namespace dslide::coordinator
