#include "services/shard/storage/storage_metadata.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"
#include "core/spec/model_spec_json.h"
#include "core/system/format_version.h"
#include "core/system/sealed_text.h"
#include "nlohmann/json.hpp"

namespace dslide::shard {
namespace {

using Json = nlohmann::ordered_json;

constexpr RowPrecision kPrecisions[] = {RowPrecision::kF32, RowPrecision::kBf16Weights,
                                        RowPrecision::kBf16};

absl::Status DamagedMetadata(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("the metadata record ", what));
}

// An integer field. Errors are collected in `missing`.
int64_t Integer(const Json& json, const char* name, std::string& missing) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_number_integer()) {
    missing = name;
    return 0;
  }
  return found->get<int64_t>();
}

std::string Text(const Json& json, const char* name, std::string& missing) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_string()) {
    missing = name;
    return "";
  }
  return found->get<std::string>();
}

absl::StatusOr<SlotMap> ReadSlotMap(const Json& json) {
  std::string missing;
  const int64_t num_shards = Integer(json, "num_shards", missing);
  const auto owners_json = json.find("owners");
  if (!missing.empty() || owners_json == json.end() || !owners_json->is_array()) {
    return DamagedMetadata("has a slot map without num_shards or owners");
  }
  std::vector<ShardId> owners;
  for (const Json& owner : *owners_json) {
    if (!owner.is_number_integer()) return DamagedMetadata("has a slot owner that is no number");
    owners.emplace_back(owner.get<int32_t>());
  }
  absl::StatusOr<SlotMap> map = SlotMap::FromOwners(std::move(owners), num_shards);
  if (!map.ok())
    return DamagedMetadata(absl::StrCat("has a bad slot map: ", map.status().message()));
  return map;
}

// A digest in hexadecimal.
uint64_t Digest(const Json& json, const char* name, std::string& missing) {
  uint64_t digest = 0;
  if (!absl::SimpleHexAtoi(Text(json, name, missing), &digest)) missing = name;
  return digest;
}

absl::StatusOr<CheckpointTable> ReadTable(const Json& json) {
  std::string missing;
  CheckpointTable table;
  table.name = Text(json, "name", missing);
  table.rows = Integer(json, "rows", missing);
  table.present = Integer(json, "present", missing);
  table.record_bytes = Integer(json, "record_bytes", missing);
  table.stored_bytes = Integer(json, "stored_bytes", missing);
  const std::string word = Text(json, "precision", missing);
  const auto* const known =
      std::find_if(std::begin(kPrecisions), std::end(kPrecisions),
                   [&](RowPrecision precision) { return PrecisionName(precision) == word; });
  if (known == std::end(kPrecisions)) {
    missing = "precision";
  } else {
    table.precision = *known;
  }
  table.applied_steps = Integer(json, "applied_steps", missing);
  table.digest = Digest(json, "digest", missing);
  table.changed_rows = Integer(json, "changed_rows", missing);
  table.changed_digest = Digest(json, "changed_digest", missing);
  if (!missing.empty())
    return DamagedMetadata(absl::StrCat("lacks the table field \"", missing, "\""));
  return table;
}

absl::StatusOr<CheckpointMetadata> ReadMetadata(const Json& json) {
  std::string missing;
  const int64_t format = Integer(json, "format", missing);
  if (missing.empty()) {
    RETURN_IF_ERROR(CheckFormat("the checkpoint", format,
                                {.oldest = kCheckpointFormat, .newest = kCheckpointFormat}));
  }
  CheckpointMetadata metadata;
  metadata.shard = ShardId(static_cast<int32_t>(Integer(json, "shard", missing)));
  metadata.increment = Integer(json, "increment", missing);
  const auto spec = json.find("model");
  const auto maps = json.find("slot_maps");
  const auto tables = json.find("tables");
  if (!missing.empty() || spec == json.end() || maps == json.end() || !maps->is_array() ||
      tables == json.end() || !tables->is_array()) {
    return DamagedMetadata("lacks a field");
  }
  absl::StatusOr<ModelSpec> model = ModelSpecFromJson(spec->dump(), "checkpoint metadata");
  if (!model.ok())
    return DamagedMetadata(absl::StrCat("has a bad model: ", model.status().message()));
  metadata.spec = *std::move(model);
  for (const Json& map : *maps) {
    ASSIGN_OR_RETURN(SlotMap slots, ReadSlotMap(map));
    metadata.slot_maps.push_back(std::move(slots));
  }
  for (const Json& table : *tables) {
    ASSIGN_OR_RETURN(CheckpointTable read, ReadTable(table));
    metadata.tables.push_back(std::move(read));
  }
  return metadata;
}

}  // namespace

CheckpointMetadata DescribeForCheckpoint(const ShardModel& model) {
  CheckpointMetadata metadata{
      .spec = model.spec(), .shard = model.shard(), .slot_maps = model.slot_maps(), .tables = {}};
  const DescribeModelReply state = model.Describe(/*with_digests=*/false);
  for (size_t i = 0; i < state.tables.size(); ++i) {
    const ShardTable& table = model.tables()[i];
    const StoredRows& stored = table.stored();
    metadata.tables.push_back(
        {.name = state.tables[i].name,
         .rows = stored.rows().num_rows(),
         .present = stored.present(),
         .record_bytes = stored.record_bytes(),
         .stored_bytes = table.records == nullptr ? 0 : table.records->stored_bytes(),
         .precision = table.spec.precision,
         .applied_steps = state.tables[i].applied_steps,
         .digest = 0});
  }
  return metadata;
}

int64_t RecordMemory(const CheckpointMetadata& metadata) {
  int64_t bytes = 0;
  for (const CheckpointTable& table : metadata.tables) bytes += table.stored_bytes;
  return bytes;
}

absl::Status CheckDigests(const ShardModel& model, const CheckpointMetadata& metadata) {
  const DescribeModelReply state = model.Describe(/*with_digests=*/true);
  for (size_t i = 0; i < state.tables.size(); ++i) {
    if (state.tables[i].digest != metadata.tables[i].digest) {
      return absl::DataLossError(absl::StrCat("table \"", state.tables[i].name,
                                              "\" does not have the content digest that was "
                                              "written"));
    }
  }
  return absl::OkStatus();
}

std::string EncodeMetadata(const CheckpointMetadata& metadata) {
  Json json;
  json["format"] = kCheckpointFormat;
  json["increment"] = metadata.increment;
  json["shard"] = metadata.shard.value();
  json["model"] = Json::parse(ModelSpecToJson(metadata.spec));
  json["slot_maps"] = Json::array();
  for (const SlotMap& map : metadata.slot_maps) {
    Json owners = Json::array();
    for (const ShardId owner : map.owners()) owners.push_back(owner.value());
    json["slot_maps"].push_back({{"num_shards", map.num_shards()}, {"owners", owners}});
  }
  json["tables"] = Json::array();
  for (const CheckpointTable& table : metadata.tables) {
    json["tables"].push_back({{"name", table.name},
                              {"rows", table.rows},
                              {"present", table.present},
                              {"record_bytes", table.record_bytes},
                              {"stored_bytes", table.stored_bytes},
                              {"precision", std::string(PrecisionName(table.precision))},
                              {"applied_steps", table.applied_steps},
                              {"digest", absl::StrFormat("%016x", table.digest)},
                              {"changed_rows", table.changed_rows},
                              {"changed_digest", absl::StrFormat("%016x", table.changed_digest)}});
  }
  return SealBytes(json.dump());
}

absl::StatusOr<CheckpointMetadata> DecodeMetadata(absl::string_view bytes) {
  const auto text = UnsealBytes(bytes);
  if (!text.has_value()) return DamagedMetadata("does not have its checksum");
  const Json json = Json::parse(text->begin(), text->end(), /*cb=*/nullptr,
                                /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object()) return DamagedMetadata("is no JSON object");
  return ReadMetadata(json);
}

}  // namespace dslide::shard
