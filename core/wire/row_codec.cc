#include "core/wire/row_codec.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"
#include "core/wire/arrays/explicit_rows_codec.h"
#include "core/wire/arrays/matrix_codec.h"
#include "core/wire/envelope_codec.h"

namespace dslide::wire {
namespace {

constexpr int64_t kMaxTables = 256;  // hash tables, see HashSpec
constexpr int64_t kMaxTopK = 1024;

// Decodes u32[batch, num_tables] without knowing num_tables: whole rows, at most kMaxTables each.
absl::StatusOr<std::vector<uint32_t>> DecodeFingerprints(absl::string_view field,
                                                         const std::string& bytes, int64_t batch) {
  ASSIGN_OR_RETURN(std::vector<uint32_t> prints,
                   DecodeU32s(field, bytes, Count::AtMost(batch * kMaxTables)));
  if (batch > 0 && prints.size() % batch != 0) {
    return Refusal(reason::kBadSize, field,
                   absl::StrCat("has ", prints.size(), " elements for ", batch,
                                " samples, must have the same number for each"));
  }
  return prints;
}

absl::Status CheckRange(absl::string_view field, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return Refusal(reason::kOutOfRange, field,
                 absl::StrCat("is ", value, ", must be in [", low, ", ", high, "]"));
}

// Encodes rows [first, first + count) of a block.
void EncodeRowRange(const RowBlock& block, int64_t first, int64_t count, ActivationType type,
                    v1::RowBlock* out) {
  EncodeRowIds(absl::MakeConstSpan(block.rows).subspan(first, count), out->mutable_row_ids());
  EncodeMatrix(count, block.dim,
               absl::MakeConstSpan(block.values).subspan(first * block.dim, count * block.dim),
               {.type = type}, out->mutable_values());
  if (!block.biases.empty()) {
    EncodeFloats(absl::MakeConstSpan(block.biases).subspan(first, count), out->mutable_biases());
  }
}

// The rows that a query names, which it does in one mode.
absl::Status DecodeCandidates(const v1::TopKRequest& request, TopKCommand& command) {
  const std::string no_weights;
  ASSIGN_OR_RETURN(command.candidates, DecodeExplicitRows({.message = "",
                                                           .ids_name = "packed_row_ids",
                                                           .logit_offsets_name = "logit_offsets",
                                                           .weights_name = "",
                                                           .ids = request.packed_row_ids(),
                                                           .logit_offsets = request.logit_offsets(),
                                                           .weights = no_weights},
                                                          command.batch));
  const bool given = request.mode() == v1::TOP_K_MODE_GIVEN;
  if (given == !command.candidates.empty()) return absl::OkStatus();
  return given ? Refusal(reason::kMissingField, "packed_row_ids", "is empty in TOP_K_MODE_GIVEN")
               : Refusal(reason::kBadSize, "packed_row_ids",
                         "is there, but mode is not TOP_K_MODE_GIVEN");
}

v1::TopKMode ModeOf(const TopKCommand& command) {
  if (!command.candidates.empty()) return v1::TOP_K_MODE_GIVEN;
  return command.hashed ? v1::TOP_K_MODE_HASHED : v1::TOP_K_MODE_EXACT;
}

}  // namespace

int64_t RowsPerChunk(int64_t chunk_bytes, int64_t dim, ActivationType type, bool has_bias) {
  const int64_t element = type == ActivationType::kF32 ? 4 : 2;
  const int64_t row_bytes = 4 + dim * element + (has_bias ? 4 : 0);
  return std::clamp<int64_t>(chunk_bytes / row_bytes, 1, kMaxMatrixSide);
}

v1::ScatterMode EncodeScatterMode(ScatterMode mode) {
  switch (mode) {
    case ScatterMode::kGradient:
      return v1::SCATTER_MODE_GRADIENT;
    case ScatterMode::kAdd:
      return v1::SCATTER_MODE_ADD;
    case ScatterMode::kAssign:
      return v1::SCATTER_MODE_ASSIGN;
  }
  return v1::SCATTER_MODE_UNSPECIFIED;
}

absl::Status BadAnswer(const absl::Status& why) {
  return absl::InternalError(absl::StrCat("malformed answer: ", why.message()));
}

absl::StatusOr<RowBlock> DecodeRowBlock(absl::string_view field, const v1::RowBlock& block,
                                        int64_t max_rows, Floats floats) {
  RowBlock decoded;
  ASSIGN_OR_RETURN(decoded.rows, DecodeAscendingRowIds(absl::StrCat(field, ".row_ids"),
                                                       block.row_ids(), Count::AtMost(max_rows)));
  const auto n = static_cast<int64_t>(decoded.rows.size());
  if (n == 0 && !block.has_values()) {
    if (block.biases().empty()) return decoded;
    return Refusal(reason::kBadSize, absl::StrCat(field, ".biases"), "is set without rows");
  }
  ASSIGN_OR_RETURN(MatrixReply values,
                   DecodeMatrix(absl::StrCat(field, ".values"), block.values(), Count::Exactly(n),
                                {1, kMaxMatrixSide}, floats));
  decoded.dim = values.cols;
  decoded.values = std::move(values.data);
  if (!block.biases().empty()) {
    ASSIGN_OR_RETURN(decoded.biases, DecodeFloats(absl::StrCat(field, ".biases"), block.biases(),
                                                  Count::Exactly(n), floats));
  }
  return decoded;
}

void EncodeRowBlock(const RowBlock& block, ActivationType type, v1::RowBlock* out) {
  EncodeRowRange(block, 0, static_cast<int64_t>(block.rows.size()), type, out);
}

absl::StatusOr<GatherCall> DecodeGatherRequest(const v1::GatherRequest& request) {
  GatherCall call;
  GatherCommand& command = call.command;
  RETURN_IF_ERROR(CheckName("model", request.model()));
  RETURN_IF_ERROR(CheckName("table", request.table()));
  command.model = request.model();
  command.table = request.table();
  command.topology_version = request.topology_version();
  command.averaged = request.averaged();
  if (request.element_type() != v1::ELEMENT_TYPE_UNSPECIFIED) {
    ASSIGN_OR_RETURN(call.element_type, DecodeElementType("element_type", request.element_type()));
  }
  switch (request.selection_case()) {
    case v1::GatherRequest::kRows: {
      ASSIGN_OR_RETURN(command.rows, DecodeAscendingRowIds("rows.row_ids", request.rows().row_ids(),
                                                           Count::AtMost(kMaxBulkRows)));
      return call;
    }
    case v1::GatherRequest::kFingerprints: {
      const v1::FingerprintSelection& selection = request.fingerprints();
      command.by_fingerprint = true;
      command.batch = selection.batch();
      RETURN_IF_ERROR(CheckRange("fingerprints.batch", command.batch, 1, kMaxBatch));
      ASSIGN_OR_RETURN(
          command.fingerprints,
          DecodeFingerprints("fingerprints.fingerprints", selection.fingerprints(), command.batch));
      command.max_active = selection.max_active();
      RETURN_IF_ERROR(CheckRange("fingerprints.max_active", command.max_active, 0, kMaxTableRows));
      return call;
    }
    default:
      return Refusal(reason::kMissingField, "selection", "must be rows or fingerprints");
  }
}

void EncodeGatherRequest(const GatherCall& call, v1::GatherRequest* out) {
  const GatherCommand& command = call.command;
  out->set_model(command.model);
  out->set_table(command.table);
  out->set_topology_version(command.topology_version);
  out->set_averaged(command.averaged);
  out->set_element_type(EncodeElementType(call.element_type));
  if (command.by_fingerprint) {
    v1::FingerprintSelection* selection = out->mutable_fingerprints();
    selection->set_batch(static_cast<uint32_t>(command.batch));
    EncodeU32s(command.fingerprints, selection->mutable_fingerprints());
    selection->set_max_active(command.max_active);
  } else {
    EncodeRowIds(command.rows, out->mutable_rows()->mutable_row_ids());
  }
}

GatherChunker::GatherChunker(const GatherReply& reply, ActivationType type, int64_t chunk_bytes)
    : reply_(reply),
      type_(type),
      rows_per_chunk_(RowsPerChunk(chunk_bytes, reply.rows.dim, type, !reply.rows.biases.empty())) {
}

bool GatherChunker::Next(v1::GatherResponse* out) {
  const auto total = static_cast<int64_t>(reply_.rows.rows.size());
  if (!first_ && next_row_ >= total) return false;
  out->Clear();
  if (std::exchange(first_, false)) {
    out->set_total_rows(total);
    EncodeU32s(reply_.sample_offsets, out->mutable_sample_offsets());
    EncodeRowIds(reply_.sample_rows, out->mutable_sample_row_ids());
    // What was selected may fill a message by itself.
    if (!reply_.sample_offsets.empty()) return true;
  }
  const int64_t count = std::min(rows_per_chunk_, total - next_row_);
  EncodeRowRange(reply_.rows, next_row_, count, type_, out->mutable_rows());
  next_row_ += count;
  return true;
}

std::vector<v1::ScatterRequest> EncodeScatter(const ScatterCommand& command, ActivationType type,
                                              int64_t chunk_bytes) {
  const auto total = static_cast<int64_t>(command.rows.rows.size());
  const int64_t step =
      RowsPerChunk(chunk_bytes, command.rows.dim, type, !command.rows.biases.empty());
  std::vector<v1::ScatterRequest> messages(std::max<int64_t>(1, (total + step - 1) / step));
  EncodeEnvelope(command.envelope, messages[0].mutable_envelope());
  messages[0].set_table(command.table);
  messages[0].set_mode(EncodeScatterMode(command.mode));
  messages[0].set_total_rows(total);
  if (command.learning_rate.has_value()) messages[0].set_learning_rate(*command.learning_rate);
  for (int64_t first = 0; first < total; first += step) {
    EncodeRowRange(command.rows, first, std::min(step, total - first), type,
                   messages[first / step].mutable_rows());
  }
  return messages;
}

absl::StatusOr<TopKCommand> DecodeTopKRequest(const v1::TopKRequest& request) {
  TopKCommand command;
  RETURN_IF_ERROR(CheckName("model", request.model()));
  RETURN_IF_ERROR(CheckName("table", request.table()));
  command.model = request.model();
  command.table = request.table();
  ASSIGN_OR_RETURN(MatrixReply hidden, DecodeMatrix("hidden", request.hidden(), {1, kMaxBatch},
                                                    {1, kMaxMatrixSide}, Floats::kBounded));
  command.batch = hidden.rows;
  command.dim = hidden.cols;
  command.hidden = std::move(hidden.data);
  command.k = request.k();
  RETURN_IF_ERROR(CheckRange("k", command.k, 1, kMaxTopK));
  if (command.batch * command.k * 8 > kMaxMessageBytes) {
    return Refusal(
        reason::kOverLimit, "k",
        absl::StrCat("is ", command.k, " for ", command.batch, " queries, an answer of more than ",
                     kMaxMessageBytes, " bytes: send fewer queries"));
  }
  switch (request.mode()) {
    case v1::TOP_K_MODE_EXACT:
      break;
    case v1::TOP_K_MODE_HASHED:
      command.hashed = true;
      break;
    case v1::TOP_K_MODE_GIVEN:
      break;
    default:
      return Refusal(
          reason::kBadEnum, "mode",
          absl::StrCat("is ", static_cast<int>(request.mode()),
                       ", must be TOP_K_MODE_EXACT, TOP_K_MODE_HASHED or TOP_K_MODE_GIVEN"));
  }
  command.budget = request.budget();
  RETURN_IF_ERROR(CheckRange("budget", command.budget, 0, kMaxTableRows));
  if (command.budget > 0 && !command.hashed) {
    return Refusal(reason::kBadSize, "budget", "is there, but mode is not TOP_K_MODE_HASHED");
  }
  RETURN_IF_ERROR(DecodeCandidates(request, command));
  ASSIGN_OR_RETURN(command.fingerprints,
                   DecodeFingerprints("fingerprints", request.fingerprints(), command.batch));
  return command;
}

void EncodeTopKRequest(const TopKCommand& command, ActivationType type, v1::TopKRequest* out) {
  out->set_model(command.model);
  out->set_table(command.table);
  EncodeMatrix(command.batch, command.dim, command.hidden, {.type = type}, out->mutable_hidden());
  out->set_k(static_cast<uint32_t>(command.k));
  out->set_mode(ModeOf(command));
  out->set_budget(static_cast<uint32_t>(command.budget));
  EncodeU32s(command.fingerprints, out->mutable_fingerprints());
  EncodeExplicitRows(command.candidates, type,
                     {.ids = out->mutable_packed_row_ids(),
                      .logit_offsets = out->mutable_logit_offsets(),
                      .weights = nullptr});
}

void EncodeTopKResponse(const TopKReply& reply, v1::TopKResponse* out) {
  EncodeRowIds(reply.scored.rows, out->mutable_row_ids());
  EncodeFloats(reply.scored.logits, out->mutable_logits());
  out->set_mode(reply.given          ? v1::TOP_K_MODE_GIVEN
                : reply.scored.exact ? v1::TOP_K_MODE_EXACT
                                     : v1::TOP_K_MODE_HASHED);
  out->set_scored_rows(reply.scored.scored_rows);
  EncodeU32s(reply.scored.by_query, out->mutable_scored_rows_by_query());
}

absl::StatusOr<TopKReply> DecodeTopKResponse(const v1::TopKResponse& response, int64_t batch,
                                             int64_t k) {
  // Not DecodeRowIds: a place without a row has an id beyond any table.
  auto rows = DecodeU32s("row_ids", response.row_ids(), Count::Exactly(batch * k));
  if (!rows.ok()) return BadAnswer(rows.status());
  auto logits = DecodeFloats("logits", response.logits(), Count::Exactly(batch * k), Floats::kAny);
  if (!logits.ok()) return BadAnswer(logits.status());
  TopKReply reply;
  reply.k = k;
  reply.scored.rows.reserve(rows->size());
  for (const uint32_t row : *rows) reply.scored.rows.emplace_back(row);
  reply.scored.logits = *std::move(logits);
  reply.scored.scored_rows = response.scored_rows();
  if (!response.scored_rows_by_query().empty()) {
    auto by_query =
        DecodeU32s("scored_rows_by_query", response.scored_rows_by_query(), Count::Exactly(batch));
    if (!by_query.ok()) return BadAnswer(by_query.status());
    reply.scored.by_query = *std::move(by_query);
  }
  reply.given = response.mode() == v1::TOP_K_MODE_GIVEN;
  reply.scored.exact = !reply.given && response.mode() != v1::TOP_K_MODE_HASHED;
  return reply;
}

}  // namespace dslide::wire
