#include "core/engine/rows/row_layout.h"

namespace dslide {
namespace {

constexpr int64_t kLineBytes = 64;

int64_t RoundUpToLine(int64_t bytes) { return (bytes + kLineBytes - 1) / kLineBytes * kLineBytes; }

}  // namespace

RowLayout RowLayout::Of(const TableSpec& spec) {
  RowLayout layout;
  layout.dim = spec.dim;
  layout.precision = spec.precision;
  layout.has_bias = spec.role != TableRole::kEmbedding;
  layout.state = StateSizesOf(spec.optimizer);
  layout.weight_bytes = RoundUpToLine(spec.dim * (layout.bf16_weights() ? 2 : 4));
  layout.vector_bytes = RoundUpToLine(spec.dim * (layout.bf16_state() ? 2 : 4));
  layout.tail_offset = layout.weight_bytes + layout.state.vectors * layout.vector_bytes;
  layout.tail_floats = 1 + layout.state.bias_floats + layout.state.row_floats + 1;
  layout.record_bytes = layout.tail_offset + RoundUpToLine(4 * layout.tail_floats);
  return layout;
}

}  // namespace dslide
