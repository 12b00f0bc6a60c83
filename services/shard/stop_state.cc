#include "services/shard/stop_state.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/byte_fields.h"
#include "core/base/sealed_text.h"
#include "services/shard/core_state.h"

namespace dslide::shard {
namespace {

constexpr char kMagic[] = "DSLISTP1";

absl::Status Damaged(const std::string& path, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(
      path, " ", what,
      "; without this file the shard starts with the rows alone, and knows no client"));
}

}  // namespace

std::string EncodeStopState(const ShardCore& core) {
  ByteWriter out;
  out.Bytes(kMagic);
  out.Number(core.Digest());
  out.Bytes(EncodeCoreState(core));
  return SealBytes(std::move(out).Take());
}

absl::Status DecodeStopState(const std::string& path, absl::string_view bytes, ShardCore& core) {
  const auto content = UnsealBytes(bytes);
  if (!content.has_value()) return Damaged(path, "does not have its checksum");
  ByteReader in(*content);
  if (in.Bytes() != kMagic) return Damaged(path, "is no state of this version");
  const auto digest = in.Number<uint64_t>();
  const absl::string_view state = in.Bytes();
  if (!in.AtEnd()) return Damaged(path, "is cut, or too long");
  if (digest != core.Digest()) return Damaged(path, "is of other rows than those that are here");
  return RestoreCoreState(state, core);
}

}  // namespace dslide::shard
