#include "services/shard/durability/stop_state.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/byte_fields.h"
#include "core/base/status_macros.h"
#include "core/system/format_version.h"
#include "core/system/sealed_text.h"
#include "services/shard/state/core_state.h"

namespace dslide::shard {
namespace {

// The version is behind it.
constexpr char kMagicWord[] = "DSLISTP";
constexpr int64_t kFormat = 1;

absl::Status DamagedStop(const std::string& path, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(
      path, " ", what,
      "; without this file the shard starts with the rows alone, and knows no client"));
}

}  // namespace

std::string EncodeStopState(const ShardCore& core) {
  ByteWriter out;
  out.Bytes(absl::StrCat(kMagicWord, kFormat));
  out.Number(core.Digest());
  out.Bytes(EncodeCoreState(core));
  return SealBytes(std::move(out).Take());
}

absl::Status DecodeStopState(const std::string& path, absl::string_view bytes, ShardCore& core) {
  const auto content = UnsealBytes(bytes);
  if (!content.has_value()) return DamagedStop(path, "does not have its checksum");
  ByteReader in(*content);
  const std::optional<int64_t> version = VersionBehind(kMagicWord, in.Bytes());
  if (!version.has_value()) return DamagedStop(path, "is no state of a stopped shard");
  RETURN_IF_ERROR(CheckFormat(path, *version, {.oldest = kFormat, .newest = kFormat}));
  const auto digest = in.Number<uint64_t>();
  const absl::string_view state = in.Bytes();
  if (!in.AtEnd()) return DamagedStop(path, "is cut, or too long");
  if (digest != core.Digest())
    return DamagedStop(path, "is of other rows than those that are here");
  return RestoreCoreState(state, core);
}

}  // namespace dslide::shard
