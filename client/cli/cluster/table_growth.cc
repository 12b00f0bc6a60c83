#include "client/cli/cluster/table_growth.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/console/terminal.h"
#include "core/base/status_macros.h"
#include "core/spec/model_growth.h"

namespace dslide::cli {
namespace {

bool FollowsLabels(const ModelSpec& model, const TableSpec& table) {
  if (table.role == TableRole::kLabelTrees || table.role == TableRole::kLinear) return true;
  return table.role == TableRole::kHead && model.FindRole(TableRole::kMemory) != nullptr;
}

absl::Status GrowTables(CoordinatorClient& coordinator, const ModelSpec& spec,
                        ProgressSink& progress) {
  ASSIGN_OR_RETURN(const std::vector<ModelSpec> models, coordinator.ListModels());
  for (const ModelSpec& model : models) {
    // Whatever else differs is refused when it is registered, and nothing has grown then.
    if (model.name != spec.name || !IsGrownFrom(model, spec)) continue;
    // Tables of records follow the labels of the model.
    if (model.FindRole(TableRole::kMemory) != nullptr && spec.num_labels() > model.num_labels()) {
      RETURN_IF_ERROR(coordinator.GrowModel(spec.name, {.labels = spec.num_labels()}).status());
      progress.Say(absl::StrCat("Model \"", spec.name, "\" has grown from ",
                                WithThousands(model.num_labels()), " to ",
                                WithThousands(spec.num_labels()), " labels"));
    }
    for (const TableSpec& known : model.tables) {
      if (FollowsLabels(model, known)) continue;
      const TableSpec* const wanted = spec.FindTable(known.name);
      if (wanted == nullptr || wanted->rows <= known.rows) continue;
      RETURN_IF_ERROR(
          coordinator.GrowModel(spec.name, {.table = known.name, .rows = wanted->rows}).status());
      progress.Say(absl::StrCat("Table \"", known.name, "\" of model \"", spec.name,
                                "\" has grown from ", WithThousands(known.rows), " to ",
                                WithThousands(wanted->rows), " rows"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status MakeModel(ClusterClient& cluster, const ModelSpec& spec, bool grow,
                       ProgressSink& progress) {
  if (grow) RETURN_IF_ERROR(GrowTables(cluster.coordinator(), spec, progress));
  return cluster.CreateModel(spec).status();
}

}  // namespace dslide::cli
