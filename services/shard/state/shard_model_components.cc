// The operations on the tables of records.

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "services/shard/state/refusal.h"
#include "services/shard/state/shard_model.h"

namespace dslide::shard {
namespace {

// Whether the operation changes its table, and the sparse inputs that it brings.
struct OpTraits {
  bool changes = false;
  const SparseInputs* inputs = nullptr;
};

OpTraits TraitsOf(const StepOp& op) {
  if (const auto* append = std::get_if<AppendPointsOp>(&op)) return {true, &append->inputs};
  if (const auto* find = std::get_if<FindNeighboursOp>(&op)) return {false, &find->inputs};
  if (const auto* score = std::get_if<ScoreRowsOp>(&op)) return {false, &score->inputs};
  return {std::holds_alternative<PutRecordOp>(op) || std::holds_alternative<SolveRowsOp>(op),
          nullptr};
}

template <typename Reply>
absl::StatusOr<ReplyBody> Body(absl::StatusOr<Reply> reply) {
  if (!reply.ok()) return std::move(reply).status();
  return ReplyBody(*std::move(reply));
}

absl::StatusOr<ReplyBody> Run(const StepOp& op, int64_t max_reply_bytes, int64_t room,
                              Components& components) {
  if (const auto* append = std::get_if<AppendPointsOp>(&op)) {
    return Body(components.AppendPoints(*append));
  }
  if (const auto* put = std::get_if<PutRecordOp>(&op)) return Body(components.PutRecord(*put));
  if (const auto* get = std::get_if<GetRecordOp>(&op)) return Body(components.GetRecord(*get));
  if (const auto* solve = std::get_if<SolveRowsOp>(&op)) return Body(components.SolveRows(*solve));
  if (const auto* find = std::get_if<FindNeighboursOp>(&op)) {
    return Body(components.FindNeighbours(*find, max_reply_bytes));
  }
  return Body(components.ScoreRows(std::get<ScoreRowsOp>(op), room));
}

}  // namespace

absl::StatusOr<ReplyBody> ShardModel::RunComponentOp(const StepOp& op, int64_t room) {
  const std::string& name =
      std::visit([](const auto& any) -> const std::string& { return any.table; }, op);
  if (components_ == nullptr) {
    RETURN_IF_ERROR(Find(name).status());
    return Refuse(reason::kWrongRole, absl::StrCat("table \"", name, "\": model \"", spec_.name,
                                                   "\" has no table of records"));
  }
  const OpTraits traits = TraitsOf(op);
  if (traits.inputs != nullptr) RETURN_IF_ERROR(CheckMagnitude("values", traits.inputs->values));
  ASSIGN_OR_RETURN(ReplyBody reply, Run(op, limits_.max_step_reply_bytes, room, *components_));
  if (auto* const found = std::get_if<FindNeighboursReply>(&reply)) LeaveOutRetiredLabels(*found);
  if (traits.changes) {
    ASSIGN_OR_RETURN(const ShardTable* const table, Find(name));
    ++const_cast<ShardTable*>(table)->own_applied;
  }
  return reply;
}

}  // namespace dslide::shard
