#include "core/wire/bulk/bulk_frames.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <utility>

#include "core/wire/arrays/matrix_codec.h"
#include "core/wire/bulk/row_block_shape.h"
#include "core/wire/envelope_codec.h"
#include "dslide/v1/shard.pb.h"

namespace dslide::wire {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedOutputStream;

void AppendVarint(uint64_t value, std::string* out) {
  uint8_t bytes[10];
  uint8_t* const end = CodedOutputStream::WriteVarint64ToArray(value, bytes);
  out->append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(end - bytes));
}

void AppendTag(int field, WireFormatLite::WireType type, std::string* out) {
  AppendVarint(WireFormatLite::MakeTag(field, type), out);
}

// The beginning of a length-delimited field.
std::string BytesHead(int field, int64_t length) {
  std::string head;
  AppendTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED, &head);
  AppendVarint(static_cast<uint64_t>(length), &head);
  return head;
}

// What stands around the numbers of a v1.RowBlock.
struct RowBlockHeads {
  std::string before_ids;
  std::string before_values;
  std::string before_biases;
  int64_t size = 0;  // of the whole block, numbers included
};

RowBlockHeads HeadsOf(int64_t count, int64_t dim, ActivationType type, bool has_bias) {
  const int64_t ids_bytes = count * 4;
  const int64_t data_bytes = count * dim * ElementBytes(type);
  v1::Matrix matrix;
  matrix.set_rows(static_cast<uint32_t>(count));
  matrix.set_cols(static_cast<uint32_t>(dim));
  matrix.set_element_type(EncodeElementType(type));
  const std::string in_matrix =
      matrix.SerializeAsString() + BytesHead(v1::Matrix::kDataFieldNumber, data_bytes);
  RowBlockHeads heads;
  heads.before_ids = BytesHead(v1::RowBlock::kRowIdsFieldNumber, ids_bytes);
  heads.before_values = BytesHead(v1::RowBlock::kValuesFieldNumber,
                                  static_cast<int64_t>(in_matrix.size()) + data_bytes) +
                        in_matrix;
  if (has_bias) heads.before_biases = BytesHead(v1::RowBlock::kBiasesFieldNumber, ids_bytes);
  heads.size = static_cast<int64_t>(heads.before_ids.size() + heads.before_values.size() +
                                    heads.before_biases.size()) +
               ids_bytes + data_bytes + (has_bias ? ids_bytes : 0);
  return heads;
}

std::string TotalRows(int field, int64_t total) {
  std::string bytes;
  if (total == 0) return bytes;
  AppendTag(field, WireFormatLite::WIRETYPE_VARINT, &bytes);
  AppendVarint(static_cast<uint64_t>(total), &bytes);
  return bytes;
}

// Writes and steps over.
char* Put(const std::string& bytes, char* at) { return std::copy(bytes.begin(), bytes.end(), at); }

template <typename T>
absl::string_view BytesOf(const T* values, int64_t count) {
  return {reinterpret_cast<const char*>(values), static_cast<size_t>(count) * sizeof(T)};
}

}  // namespace

GatherFrame::GatherFrame(const Rows& rows) : has_bias_(rows.has_bias) {
  RowBlockHeads heads = HeadsOf(rows.count, rows.dim, rows.type, rows.has_bias);
  before_ids_ = BytesHead(v1::GatherResponse::kRowsFieldNumber, heads.size) + heads.before_ids;
  before_values_ = std::move(heads.before_values);
  before_biases_ = std::move(heads.before_biases);
  end_ = TotalRows(v1::GatherResponse::kTotalRowsFieldNumber, rows.total_rows);
  ids_at_ = static_cast<int64_t>(before_ids_.size());
  values_at_ = ids_at_ + rows.count * 4 + static_cast<int64_t>(before_values_.size());
  biases_at_ = values_at_ + rows.count * rows.dim * ElementBytes(rows.type) +
               static_cast<int64_t>(before_biases_.size());
  size_ = biases_at_ + (has_bias_ ? rows.count * 4 : 0) + static_cast<int64_t>(end_.size());
}

RowChunk GatherFrame::Write(char* frame) const {
  Put(before_ids_, frame);
  Put(before_values_, frame + values_at_ - before_values_.size());
  Put(before_biases_, frame + biases_at_ - before_biases_.size());
  Put(end_, frame + size_ - end_.size());
  return {.ids = frame + ids_at_,
          .values = frame + values_at_,
          .biases = has_bias_ ? frame + biases_at_ : nullptr};
}

std::vector<std::vector<FramePart>> FrameScatter(const ScatterCommand& command,
                                                 int64_t chunk_bytes) {
  const RowBlock& block = command.rows;
  const auto total = static_cast<int64_t>(block.rows.size());
  const bool has_bias = !block.biases.empty();
  const int64_t step = RowsPerChunk(chunk_bytes, block.dim, ActivationType::kF32, has_bias);
  v1::ScatterRequest first;
  EncodeEnvelope(command.envelope, first.mutable_envelope());
  first.set_table(command.table);
  first.set_mode(EncodeScatterMode(command.mode));
  if (command.learning_rate.has_value()) first.set_learning_rate(*command.learning_rate);
  std::string head = first.SerializeAsString();
  std::string end = TotalRows(v1::ScatterRequest::kTotalRowsFieldNumber, total);
  std::vector<std::vector<FramePart>> messages;
  for (int64_t row = 0; row < total; row += step) {
    const int64_t count = std::min(step, total - row);
    const RowBlockHeads heads = HeadsOf(count, block.dim, ActivationType::kF32, has_bias);
    std::vector<FramePart>& parts = messages.emplace_back();
    head += BytesHead(v1::ScatterRequest::kRowsFieldNumber, heads.size) + heads.before_ids;
    parts.push_back({std::exchange(head, {}), BytesOf(block.rows.data() + row, count)});
    parts.push_back(
        {heads.before_values, BytesOf(block.values.data() + row * block.dim, count * block.dim)});
    if (has_bias) {
      parts.push_back({heads.before_biases, BytesOf(block.biases.data() + row, count)});
    }
    if (!end.empty()) parts.push_back({std::exchange(end, {}), {}});
  }
  if (messages.empty()) messages.push_back({{head + end, {}}});
  return messages;
}

}  // namespace dslide::wire
