// Rows that a client names for each sample.

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "services/shard/state/refusal.h"
#include "services/shard/state/sample_rows.h"
#include "services/shard/state/shard_model.h"

namespace dslide::shard {

absl::StatusOr<ExplicitRows<LocalRow>> ShardModel::ToLocal(const ShardTable& table,
                                                           ExplicitRows<RowId> rows, int64_t batch,
                                                           absl::string_view field) const {
  ExplicitRows<LocalRow> local;
  if (rows.empty()) return local;
  const std::string ids_field = absl::StrCat(field, "_ids");
  RETURN_IF_ERROR(CheckOffsets(rows.offsets, rows.rows.size(), ids_field));
  RETURN_IF_ERROR(CheckAscending(rows.offsets, rows.rows, ids_field));
  const size_t n = rows.rows.size();
  const auto fits = [n](size_t size) { return size == 0 || size == n; };
  if (static_cast<int64_t>(rows.offsets.size()) != batch + 1 || !fits(rows.logit_offsets.size()) ||
      !fits(rows.weights.size())) {
    return Refuse(reason::kBadSize,
                  absl::StrCat(ids_field, " has ", n, " rows of ", rows.offsets.size() - 1,
                               " samples, ", rows.logit_offsets.size(), " logit offsets and ",
                               rows.weights.size(), " weights; the batch has ", batch));
  }
  RETURN_IF_ERROR(CheckMagnitude(absl::StrCat(field, "_logit_offsets"), rows.logit_offsets));
  for (const float weight : rows.weights) {
    if (weight >= 0.0f && weight <= kMaxExplicitWeight) continue;
    return Refuse(reason::kOutOfRange, absl::StrCat(field, "_weights has ", weight,
                                                    ", must be in [0, ", kMaxExplicitWeight, "]"));
  }
  ASSIGN_OR_RETURN(local.rows, ToLocal(table, rows.rows));
  const std::vector<uint32_t> origin = SortInSamples(rows.offsets, local.rows);
  local.offsets = std::move(rows.offsets);
  local.logit_offsets = InOrderOf(origin, rows.logit_offsets);
  local.weights = InOrderOf(origin, rows.weights);
  return local;
}

}  // namespace dslide::shard
