// Rows as shards store them, between the wire and the core.

#pragma once

#include "absl/status/statusor.h"
#include "core/protocol/commands.h"
#include "dslide/v1/shard.pb.h"

namespace dslide::wire {

// The capability of shards that read and load rows as they are stored.
inline constexpr char kLoadRows[] = "load-rows";

// message: for errors. sizes_only: there are to be no records.
// Errors: InvalidArgument with a reason word.
absl::StatusOr<StoredRowBlock> DecodeStoredRows(absl::string_view message,
                                                const v1::StoredRows& wire, bool sizes_only);
void EncodeStoredRows(const StoredRowBlock& block, v1::StoredRows* out);

absl::StatusOr<ReadRowsCommand> DecodeReadRows(const v1::ReadRowsRequest& request);
void EncodeReadRows(const ReadRowsCommand& command, v1::ReadRowsRequest* out);
void EncodeReadRows(const ReadRowsReply& reply, v1::ReadRowsResponse* out);
// command: what was asked. Errors: Internal when the answer contradicts it or itself.
absl::StatusOr<ReadRowsReply> DecodeReadRows(const v1::ReadRowsResponse& response,
                                             const ReadRowsCommand& command);

}  // namespace dslide::wire
