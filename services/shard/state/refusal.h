// The status of a request that is wrong in itself.

#pragma once

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/reason.h"
#include "core/protocol/commands.h"
#include "core/protocol/reason_words.h"

namespace dslide::shard {

// InvalidArgument with a word of core/protocol/reason_words.h.
inline absl::Status Refuse(absl::string_view reason, absl::string_view message) {
  return StatusWithReason(absl::StatusCode::kInvalidArgument, reason, message);
}

// OUT_OF_RANGE for a learning rate that the table's optimizer cannot have.
inline absl::Status CheckRate(const TableSpec& table, LearningRate rate) {
  absl::Status checked = rate.has_value() ? table.optimizer.CheckRate(*rate) : absl::OkStatus();
  if (checked.ok()) return checked;
  return Refuse(reason::kOutOfRange,
                absl::StrCat("table \"", table.name, "\": ", checked.message()));
}

}  // namespace dslide::shard
