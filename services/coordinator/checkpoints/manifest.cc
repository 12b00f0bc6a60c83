#include "services/coordinator/checkpoints/manifest.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/hex.h"
#include "core/base/status_macros.h"
#include "core/spec/model_spec_json.h"
#include "core/system/format_version.h"
#include "core/system/sealed_text.h"
#include "services/coordinator/jobs/job_record_json.h"

namespace dslide::coordinator {
namespace {

using Json = OrderedJson;

constexpr int kFormat = 1;

// Json reports through exceptions; they end in DecodeManifest().
ClientId ClientFromHex(const std::string& hex) { return ClientIdFromHex(hex).value_or(ClientId{}); }

Json ManifestToJson(const CheckpointPart& part) {
  return {{"shard", part.shard.value()},
          {"generation", part.generation},
          {"rows", part.rows},
          {"files", part.files},
          {"bytes", part.bytes},
          {"files_checksum", part.files_checksum},
          {"base_checkpoint_id", part.base_checkpoint_id},
          {"full_checkpoint_id", part.full_checkpoint_id},
          {"increments", part.increments},
          {"written_bytes", part.written_bytes}};
}

CheckpointPart PartFromJson(const Json& json) {
  CheckpointPart part;
  part.shard = ShardId(json.at("shard").get<int32_t>());
  json.at("generation").get_to(part.generation);
  json.at("rows").get_to(part.rows);
  json.at("files").get_to(part.files);
  json.at("bytes").get_to(part.bytes);
  json.at("files_checksum").get_to(part.files_checksum);
  json.at("base_checkpoint_id").get_to(part.base_checkpoint_id);
  json.at("full_checkpoint_id").get_to(part.full_checkpoint_id);
  json.at("increments").get_to(part.increments);
  json.at("written_bytes").get_to(part.written_bytes);
  return part;
}

Json AssetsToJson(const std::vector<AssetSet>& sets) {
  Json json = Json::array();
  for (const AssetSet& set : sets) {
    json.push_back({{"model", set.id.model},
                    {"checksum", set.id.checksum},
                    {"files", set.files},
                    {"bytes", set.bytes}});
  }
  return json;
}

std::vector<AssetSet> AssetsFromJson(const Json& json) {
  std::vector<AssetSet> sets;
  for (const Json& entry : json) {
    sets.push_back({.id = {.model = entry.at("model").get<std::string>(),
                           .checksum = entry.at("checksum").get<uint32_t>()},
                    .files = entry.at("files").get<int64_t>(),
                    .bytes = entry.at("bytes").get<int64_t>()});
  }
  return sets;
}

absl::StatusOr<Manifest> FromJson(const Json& json) {
  RETURN_IF_ERROR(CheckFormat("the manifest", json.at("format").get<int64_t>(),
                              {.oldest = kFormat, .newest = kFormat}));
  Manifest manifest;
  json.at("checkpoint_id").get_to(manifest.checkpoint_id);
  json.at("created_unix_ms").get_to(manifest.created_unix_ms);
  json.at("topology_version").get_to(manifest.topology_version);
  json.at("restore_count").get_to(manifest.restore_count);
  for (const Json& part : json.at("parts")) {
    manifest.parts.push_back(PartFromJson(part));
  }
  for (const Json& text : json.at("models")) {
    absl::StatusOr<ModelSpec> spec = ModelSpecFromJson(text.dump(), "manifest");
    if (!spec.ok()) return absl::DataLossError(spec.status().message());
    manifest.models.push_back(*std::move(spec));
  }
  for (const Json& job : json.at("jobs")) {
    absl::StatusOr<JobRecord> record = JobRecordFromJson(job);
    if (!record.ok()) return absl::DataLossError(record.status().message());
    manifest.jobs.push_back(*std::move(record));
  }
  if (json.contains("assets")) manifest.assets = AssetsFromJson(json.at("assets"));
  for (const Json& step : json.at("steps")) {
    manifest.steps.push_back(
        {ClientFromHex(step.at("client").get<std::string>()), step.at("step").get<int64_t>()});
  }
  for (const Json& id : json.at("evicted")) {
    manifest.evicted.push_back(ClientFromHex(id.get<std::string>()));
  }
  json.at("stall_us").get_to(manifest.stall_us);
  json.at("duration_us").get_to(manifest.duration_us);
  return manifest;
}

}  // namespace

std::vector<AssetSet> AssetsOf(const Manifest& manifest) {
  return manifest.assets.value_or(std::vector<AssetSet>());
}

std::vector<PartBase> BasesFor(const ClusterMap& map, const std::optional<Manifest>& base) {
  std::vector<PartBase> bases(map.shards.size());
  for (size_t i = 0; base.has_value() && i < bases.size(); ++i) {
    const CheckpointPart& part = base->parts[i];
    if (part.shard != map.shards[i].shard || part.generation != map.shards[i].generation) continue;
    bases[i] = {.checkpoint_id = base->checkpoint_id, .files_checksum = part.files_checksum};
  }
  return bases;
}

ClusterCheckpoint SummaryOf(const Manifest& manifest) {
  ClusterCheckpoint summary{.checkpoint_id = manifest.checkpoint_id,
                            .created = absl::FromUnixMillis(manifest.created_unix_ms),
                            .topology_version = manifest.topology_version,
                            .parts = manifest.parts,
                            .clients = static_cast<int64_t>(manifest.steps.size()),
                            .evicted = manifest.evicted,
                            .stall = absl::Microseconds(manifest.stall_us),
                            .duration = absl::Microseconds(manifest.duration_us),
                            .damage = manifest.damage};
  for (const ModelSpec& spec : manifest.models) summary.models.push_back(spec.name);
  for (const JobRecord& job : manifest.jobs) summary.jobs.push_back(job.spec.job);
  return summary;
}

bool IsIncrement(const Manifest& manifest) {
  return std::any_of(manifest.parts.begin(), manifest.parts.end(),
                     [](const CheckpointPart& part) { return part.base_checkpoint_id != 0; });
}

std::string EncodeManifest(const Manifest& manifest) {
  Json json;
  json["format"] = kFormat;
  json["checkpoint_id"] = manifest.checkpoint_id;
  json["created_unix_ms"] = manifest.created_unix_ms;
  json["topology_version"] = manifest.topology_version;
  json["restore_count"] = manifest.restore_count;
  json["parts"] = Json::array();
  for (const CheckpointPart& part : manifest.parts) json["parts"].push_back(ManifestToJson(part));
  json["models"] = Json::array();
  for (const ModelSpec& spec : manifest.models) {
    json["models"].push_back(Json::parse(ModelSpecToJson(spec)));
  }
  json["jobs"] = Json::array();
  for (const JobRecord& job : manifest.jobs) json["jobs"].push_back(JobRecordToJson(job));
  if (manifest.assets.has_value()) json["assets"] = AssetsToJson(*manifest.assets);
  json["steps"] = Json::array();
  for (const ClientStep& step : manifest.steps) {
    json["steps"].push_back({{"client", ClientIdToHex(step.client)}, {"step", step.step}});
  }
  json["evicted"] = Json::array();
  for (const ClientId& id : manifest.evicted) json["evicted"].push_back(ClientIdToHex(id));
  json["stall_us"] = manifest.stall_us;
  json["duration_us"] = manifest.duration_us;
  return SealOpenText(json.dump(1));
}

absl::StatusOr<Manifest> DecodeManifest(absl::string_view text) {
  const auto content = UnsealOpenText(text);
  if (!content.has_value()) {
    return absl::DataLossError("the manifest does not have its checksum");
  }
  try {
    return FromJson(Json::parse(content->begin(), content->end()));
  } catch (const Json::exception& error) {
    return absl::DataLossError(absl::StrCat("the manifest is damaged: ", error.what()));
  }
}

}  // namespace dslide::coordinator
