// The models the cluster has, by name. A pure state machine.

#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/spec/model_spec.h"

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
