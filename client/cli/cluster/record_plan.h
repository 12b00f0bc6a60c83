// The part of a plan that is of tables of records: memory, label trees, linear rows, fusion.

#pragma once

#include "absl/status/statusor.h"
#include "client/cli/cluster/model_plan.h"
#include "core/spec/model_spec.h"

namespace dslide::cli {

// Fills in what a shard holds of the table; entry.rows is set. Requires input.content.
void PlanRecordTable(const PlanInput& input, const TableSpec& table, TablePlan& entry);

// What the training sends, and what a checkpoint takes. `shard`: the fullest one; `wire`: the steps
// of the network, if there is one. Requires input.content.
RecordPlan PlanRecordTraining(const PlanInput& input, const ShardPlan& shard, const WirePlan& wire);

}  // namespace dslide::cli
