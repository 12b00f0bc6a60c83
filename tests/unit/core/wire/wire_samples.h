// Valid commands to start from.

#pragma once

#include <string>
#include <utility>

#include "core/protocol/commands.h"
#include "core/wire/arrays/array_codec.h"

namespace dslide::wire {

inline Envelope SampleEnvelope() {
  Envelope envelope = {.job = std::string("job-1"),
                       .client = {},
                       .sequence = 12,
                       .first_incomplete = 9,
                       .generation = 4,
                       .topology_version = 2,
                       .model = std::string("m")};
  for (size_t i = 0; i < envelope.client.size(); ++i) {
    envelope.client[i] = static_cast<uint8_t>(200 + i);
  }
  return envelope;
}

inline EmbedForwardOp SampleEmbedForward() {
  return {.table = "input",
          .offsets = {0, 2, 2, 3},
          .rows = {RowId(4), RowId(8), RowId(1)},
          .values = {0.5f, -1.0f, 2.0f}};
}

inline HeadForwardOp SampleHeadForward() {
  return {.table = "head",
          .dim = 2,
          .hidden = {1.0f, 2.0f, 3.0f, 4.0f},
          .fingerprints = {1, 2, 3, 4, 5, 6},
          .label_offsets = {0, 1, 3},
          .labels = {RowId(7), RowId(2), RowId(9)},
          .label_targets = {1.0f, 0.5f},
          .recall_samples = {1}};
}

// Names rows instead of sending fingerprints; its second sample names none here.
inline HeadForwardOp SampleExplicitHeadForward() {
  HeadForwardOp op = SampleHeadForward();
  op.fingerprints.clear();
  op.explicit_rows = {.offsets = {0, 3, 3},
                      .rows = {RowId(2), RowId(7), RowId(300)},
                      .logit_offsets = {0.5f, -1.25f, 0.0f},
                      .weights = {1.0f, 12.0f, 0.0f}};
  return op;
}

inline RowBlock SampleBlock(int64_t rows, int64_t dim, bool with_bias) {
  RowBlock block;
  block.dim = dim;
  for (int64_t i = 0; i < rows; ++i) {
    block.rows.emplace_back(static_cast<uint32_t>(3 * i + 1));
    for (int64_t j = 0; j < dim; ++j) block.values.push_back(static_cast<float>(i - j) / 4);
    if (with_bias) block.biases.push_back(static_cast<float>(i) / 8);
  }
  return block;
}

inline StepCommand SampleStep(StepOp op) {
  return {.envelope = SampleEnvelope(), .step = 31, .first_open_step = 30, .op = std::move(op)};
}

}  // namespace dslide::wire
