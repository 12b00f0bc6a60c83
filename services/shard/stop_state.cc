#include "services/shard/stop_state.h"

#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/byte_fields.h"
#include "core/base/crc32c.h"
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
  out.Number(ExtendCrc32c(0, out.bytes()));
  return std::move(out).Take();
}

absl::Status DecodeStopState(const std::string& path, absl::string_view bytes, ShardCore& core) {
  uint32_t crc = 0;
  if (bytes.size() < sizeof(crc)) return Damaged(path, "is cut");
  const absl::string_view content = bytes.substr(0, bytes.size() - sizeof(crc));
  std::memcpy(&crc, bytes.data() + content.size(), sizeof(crc));
  if (crc != ExtendCrc32c(0, content)) return Damaged(path, "does not have its checksum");
  ByteReader in(content);
  if (in.Bytes() != kMagic) return Damaged(path, "is no state of this version");
  const auto digest = in.Number<uint64_t>();
  const absl::string_view state = in.Bytes();
  if (!in.AtEnd()) return Damaged(path, "is cut, or too long");
  if (digest != core.Digest()) return Damaged(path, "is of other rows than those that are here");
  return RestoreCoreState(state, core);
}

}  // namespace dslide::shard
