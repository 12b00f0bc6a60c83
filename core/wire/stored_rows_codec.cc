#include "core/wire/stored_rows_codec.h"

#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"
#include "core/wire/arrays/array_codec.h"
#include "core/wire/envelope_codec.h"

namespace dslide::wire {

absl::StatusOr<StoredRowBlock> DecodeStoredRows(absl::string_view message,
                                                const v1::StoredRows& wire, bool sizes_only) {
  StoredRowBlock block;
  ASSIGN_OR_RETURN(block.rows,
                   DecodeAscendingRowIds(absl::StrCat(message, ".row_ids"), wire.row_ids(),
                                         Count::AtMost(kMaxMessageNumbers)));
  const std::string sizes = absl::StrCat(message, ".sizes");
  ASSIGN_OR_RETURN(
      block.sizes,
      DecodeU32s(sizes, wire.sizes(), Count::Exactly(static_cast<int64_t>(block.rows.size()))));
  for (const uint32_t size : block.sizes) {
    if (size == 0) return Refusal(reason::kBadSize, sizes, "has a 0: leave the row out");
  }
  const int64_t bytes =
      sizes_only ? 0 : std::accumulate(block.sizes.begin(), block.sizes.end(), int64_t{0});
  if (bytes != static_cast<int64_t>(wire.records().size())) {
    return Refusal(reason::kBadSize, absl::StrCat(message, ".records"),
                   absl::StrCat("has ", wire.records().size(), " bytes, must have ", bytes,
                                ", the sum of the sizes"));
  }
  block.records = wire.records();
  return block;
}

void EncodeStoredRows(const StoredRowBlock& block, v1::StoredRows* out) {
  EncodeRowIds(block.rows, out->mutable_row_ids());
  EncodeU32s(block.sizes, out->mutable_sizes());
  out->set_records(block.records);
}

absl::StatusOr<ReadRowsCommand> DecodeReadRows(const v1::ReadRowsRequest& request) {
  RETURN_IF_ERROR(CheckName("model", request.model()));
  RETURN_IF_ERROR(CheckName("table", request.table()));
  return ReadRowsCommand{.model = request.model(),
                         .table = request.table(),
                         .first = request.first(),
                         .end = request.end(),
                         .sizes_only = request.sizes_only()};
}

void EncodeReadRows(const ReadRowsCommand& command, v1::ReadRowsRequest* out) {
  out->set_model(command.model);
  out->set_table(command.table);
  out->set_first(static_cast<uint32_t>(command.first));
  out->set_end(static_cast<uint32_t>(command.end));
  out->set_sizes_only(command.sizes_only);
}

void EncodeReadRows(const ReadRowsReply& reply, v1::ReadRowsResponse* out) {
  EncodeStoredRows(reply.block, out->mutable_rows());
  out->set_next(static_cast<uint32_t>(reply.next));
  out->set_applied_steps(reply.applied_steps);
}

absl::StatusOr<ReadRowsReply> DecodeReadRows(const v1::ReadRowsResponse& response,
                                             const ReadRowsCommand& command) {
  ReadRowsReply reply = {
      .block = {}, .next = response.next(), .applied_steps = response.applied_steps()};
  absl::StatusOr<StoredRowBlock> block =
      DecodeStoredRows("rows", response.rows(), command.sizes_only);
  if (!block.ok()) return absl::InternalError(block.status().message());
  reply.block = *std::move(block);
  const std::vector<RowId>& rows = reply.block.rows;
  const bool within =
      rows.empty() || (rows.front().value() >= command.first && rows.back().value() < reply.next);
  // Who gets no further would be asked for ever.
  const bool moves = reply.next > command.first || command.first == command.end;
  if (within && moves && reply.next <= command.end) return reply;
  return absl::InternalError(absl::StrCat("rows ", command.first, " to ", command.end,
                                          " were asked for, the answer is about others and goes ",
                                          "on at ", reply.next));
}

}  // namespace dslide::wire
