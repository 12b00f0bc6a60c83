// Labels that are never predicted.

#include <utility>
#include <vector>

#include "services/shard/state/shard_model.h"

namespace dslide::shard {

void ShardModel::SetRetiredLabels(const std::string& retired) {
  if (spec_.retired_labels == retired) return;
  spec_.retired_labels = retired;
  LeaveOutRetiredLabels();
}

void ShardModel::LeaveOutRetiredLabels() {
  // ModelSpec::Validate() has parsed it.
  retired_ = RetiredLabels::Parse(spec_.retired_labels).value_or(RetiredLabels());
  for (ShardTable& table : tables_) {
    if (table.head == nullptr) continue;
    std::vector<uint8_t> left_out;
    const ShardRows& rows = table.stored().rows();
    if (!retired_.empty()) left_out.resize(static_cast<size_t>(rows.num_rows()));
    for (size_t i = 0; i < left_out.size(); ++i) {
      const RowId label = rows.ToGlobal(LocalRow(static_cast<uint32_t>(i)));
      left_out[i] = retired_.Contains(label.value()) ? 1 : 0;
    }
    table.head->LeaveOut(std::move(left_out), parallelism_);
  }
}

void ShardModel::LeaveOutRetiredLabels(FindNeighboursReply& reply) const {
  if (retired_.empty() || reply.labels_left_out) return;
  size_t kept = 0;
  uint32_t begin = 0;
  for (size_t neighbour = 0; neighbour < reply.points.size(); ++neighbour) {
    const uint32_t end = reply.label_offsets[neighbour + 1];
    for (uint32_t i = begin; i < end; ++i) {
      if (!retired_.Contains(reply.labels[i].value())) reply.labels[kept++] = reply.labels[i];
    }
    begin = end;
    reply.label_offsets[neighbour + 1] = static_cast<uint32_t>(kept);
  }
  reply.labels.resize(kept);
}

}  // namespace dslide::shard
