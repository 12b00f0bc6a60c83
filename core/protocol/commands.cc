#include "core/protocol/commands.h"

#include "core/protocol/received_rows.h"

namespace dslide {

absl::Span<const RowId> ScatterCommand::row_ids() const {
  return received ? received->rows : rows.rows;
}

}  // namespace dslide
