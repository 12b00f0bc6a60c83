#include "services/coordinator/models/catalog.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"
#include "core/spec/model_growth.h"
#include "core/spec/spec_difference.h"
#include "core/system/log.h"

namespace dslide::coordinator {

absl::Status UnknownModel(const std::string& name) {
  return StatusWithReason(
      absl::StatusCode::kNotFound, reason::kUnknownModel,
      absl::StrCat("no model \"", EscapeForLog(name, 80), "\" is registered; register it first"));
}

absl::StatusOr<bool> Catalog::Check(const ModelSpec& spec) const {
  RETURN_IF_ERROR(spec.Validate(/*sizes_known=*/true));
  const ModelSpec* const known = Find(spec.name);
  if (known == nullptr) return true;
  const std::optional<SpecDifference> difference = FirstDifference(*known, spec);
  if (!difference.has_value()) return false;
  if (IsGrownFrom(*known, spec)) {
    return StatusWithReason(
        absl::StatusCode::kFailedPrecondition, reason::kModelDiffers,
        absl::StrCat("model \"", spec.name, "\" is smaller than what is wanted, ",
                     Describe(*difference), ": dslide model grow ", spec.name, " ",
                     GrowthFlags(*known, spec)));
  }
  return StatusWithReason(
      absl::StatusCode::kFailedPrecondition, reason::kModelDiffers,
      absl::StrCat("a different model is registered as \"", spec.name, "\": its ",
                   Describe(*difference),
                   "; give that value, choose another name for this model, or delete the one that "
                   "is there (dslide model delete ",
                   spec.name, ": its rows are lost)"));
}

absl::StatusOr<bool> Catalog::Add(const ModelSpec& spec) {
  ASSIGN_OR_RETURN(const bool is_new, Check(spec));
  if (is_new) models_.emplace(spec.name, spec);
  return is_new;
}

absl::StatusOr<bool> Catalog::LacksOf(const ModelSpec& held) const {
  const ModelSpec* const known = Find(held.name);
  if (known != nullptr && IsGrownFrom(*known, held)) return true;
  return Check(held);
}

ModelSpec Catalog::WithHeld(const ModelSpec& held) const {
  const ModelSpec* const known = Find(held.name);
  return known == nullptr ? held : AsGrown(held, *known);
}

absl::StatusOr<ModelSpec> Catalog::Grown(const std::string& name, const Growth& growth) const {
  const ModelSpec* const known = Find(name);
  if (known == nullptr) return UnknownModel(name);
  return GrowSpec(*known, growth);
}

absl::StatusOr<ModelSpec> Catalog::WithRetiredLabels(const std::string& name,
                                                     const RetiredLabels& labels,
                                                     bool restore) const {
  const ModelSpec* const known = Find(name);
  if (known == nullptr) return UnknownModel(name);
  ModelSpec changed = *known;
  if (labels.end() > known->num_labels()) {
    return StatusWithReason(
        absl::StatusCode::kInvalidArgument, reason::kOutOfRange,
        absl::StrCat("model \"", name, "\" has no label ", labels.end() - 1, ", it has ",
                     known->num_labels(), ": dslide model describe ", name, " --assets"));
  }
  ASSIGN_OR_RETURN(const RetiredLabels before, RetiredLabels::Parse(known->retired_labels));
  changed.retired_labels = (restore ? before.Without(labels) : before.With(labels)).ToText();
  const absl::Status valid = changed.Validate(/*sizes_known=*/true);
  if (valid.ok()) return changed;
  return StatusWithReason(valid.code(), reason::kOutOfRange,
                          absl::StrCat("model \"", name, "\": its ", valid.message()));
}

void Catalog::Put(const ModelSpec& spec) { models_.insert_or_assign(spec.name, spec); }

absl::Status Catalog::Remove(const std::string& name) {
  return models_.erase(name) > 0 ? absl::OkStatus() : UnknownModel(name);
}

const ModelSpec* Catalog::Find(const std::string& name) const {
  const auto found = models_.find(name);
  return found == models_.end() ? nullptr : &found->second;
}

std::vector<ModelSpec> Catalog::List() const {
  std::vector<ModelSpec> models;
  models.reserve(models_.size());
  for (const auto& [name, spec] : models_) models.push_back(spec);
  return models;
}

}  // namespace dslide::coordinator
