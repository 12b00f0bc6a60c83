#include "services/shard/storage/hash_image.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/byte_fields.h"
#include "core/base/status_macros.h"
#include "core/system/format_version.h"
#include "core/system/sealed_text.h"

namespace dslide::shard {
namespace {

// The version is behind it.
constexpr char kHashImageMagicWord[] = "DSLHASH";
constexpr int64_t kHashImageFormat = 1;

}  // namespace

ModelHashes HashesOf(const ShardModel& model) {
  ModelHashes hashes;
  for (const ShardTable& table : model.tables()) {
    const bool has = table.head != nullptr && table.head->has_hashes();
    hashes.push_back(has ? std::make_optional(table.head->SaveHashes()) : std::nullopt);
  }
  return hashes;
}

std::string EncodeHashes(const ModelHashes& hashes) {
  ByteWriter out;
  out.Bytes(absl::StrCat(kHashImageMagicWord, kHashImageFormat));
  out.Number<uint64_t>(hashes.size());
  for (const std::optional<HeadHashes>& table : hashes) {
    out.Number<uint8_t>(table.has_value());
    if (!table.has_value()) continue;
    out.Array(table->index.mean);
    out.Number(table->index.bound_squared);
    out.Array(table->index.codes);
    out.Array(table->dirty);
  }
  return SealBytes(std::move(out).Take());
}

absl::StatusOr<ModelHashes> DecodeHashes(absl::string_view bytes) {
  const auto content = UnsealBytes(bytes);
  if (!content.has_value()) return absl::DataLossError("does not have its checksum");
  ByteReader in(*content);
  const std::optional<int64_t> version = VersionBehind(kHashImageMagicWord, in.Bytes());
  if (!version.has_value()) return absl::DataLossError("holds no hash tables");
  RETURN_IF_ERROR(
      CheckFormat("the file", *version, {.oldest = kHashImageFormat, .newest = kHashImageFormat}));
  ModelHashes hashes;
  const uint64_t tables = in.Count();
  for (uint64_t i = 0; i < tables && in.ok(); ++i) {
    auto& table = hashes.emplace_back();
    if (in.Number<uint8_t>() == 0) continue;
    table.emplace();
    table->index.mean = in.Array<float>();
    table->index.bound_squared = in.Number<float>();
    table->index.codes = in.Array<uint64_t>();
    table->dirty = in.Array<uint8_t>();
  }
  if (!in.AtEnd()) return absl::DataLossError("is cut, or too long");
  return hashes;
}

}  // namespace dslide::shard
