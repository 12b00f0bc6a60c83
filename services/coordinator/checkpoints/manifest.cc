#include "services/coordinator/checkpoints/manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/base/hex.h"
#include "core/base/status_macros.h"
#include "core/spec/model_spec_json.h"
#include "core/system/format_version.h"
#include "core/system/sealed_text.h"

namespace dslide::coordinator {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;

std::string ToHex(const ClientId& id) {
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(id.data()), id.size()));
}

// Json reports through exceptions; they end in DecodeManifest().
ClientId ClientFromHex(const std::string& hex) {
  ClientId id{};
  const std::optional<std::string> bytes = BytesFromHex(hex);
  if (!bytes.has_value() || bytes->size() != id.size()) return id;
  std::copy(bytes->begin(), bytes->end(), id.begin());
  return id;
}

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

Json ManifestToJson(const JobRecord& job) {
  Json done = Json::array();
  for (const JobRecord::Range& range : job.done) done.push_back({range.first, range.count});
  Json json = {{"job", job.spec.job},
               {"model", job.spec.model},
               {"samples_per_epoch", job.spec.samples_per_epoch},
               {"chunk_samples", job.spec.chunk_samples},
               {"max_epochs", job.spec.max_epochs},
               {"patience_epochs", job.spec.patience_epochs},
               {"evaluate", job.spec.evaluate},
               {"seed", job.spec.seed},
               {"data_fingerprint", job.spec.data_fingerprint},
               {"epoch", job.epoch},
               {"finished", job.finished},
               {"done", std::move(done)},
               {"best_epoch", job.best_epoch},
               {"best_metric", job.best_metric},
               {"epochs_without_better", job.epochs_without_better}};
  // Of staged jobs alone.
  if (job.spec.staged) json["stage"] = JobStageName(job.stage);
  return json;
}

JobRecord JobFromJson(const Json& json) {
  JobRecord job;
  json.at("job").get_to(job.spec.job);
  json.at("model").get_to(job.spec.model);
  json.at("samples_per_epoch").get_to(job.spec.samples_per_epoch);
  json.at("chunk_samples").get_to(job.spec.chunk_samples);
  json.at("max_epochs").get_to(job.spec.max_epochs);
  json.at("patience_epochs").get_to(job.spec.patience_epochs);
  json.at("evaluate").get_to(job.spec.evaluate);
  json.at("seed").get_to(job.spec.seed);
  json.at("data_fingerprint").get_to(job.spec.data_fingerprint);
  job.spec.staged = json.contains("stage");
  json.at("epoch").get_to(job.epoch);
  const std::string stage = json.value("stage", JobStageName(JobStage::kTraining));
  for (const JobStage known : {JobStage::kPreparation, JobStage::kCompletion}) {
    if (stage == JobStageName(known)) job.stage = known;
  }
  json.at("finished").get_to(job.finished);
  for (const Json& range : json.at("done")) {
    job.done.push_back({range.at(0).get<int64_t>(), range.at(1).get<int64_t>()});
  }
  json.at("best_epoch").get_to(job.best_epoch);
  json.at("best_metric").get_to(job.best_metric);
  json.at("epochs_without_better").get_to(job.epochs_without_better);
  return job;
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
  for (const Json& job : json.at("jobs")) manifest.jobs.push_back(JobFromJson(job));
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
  for (const JobRecord& job : manifest.jobs) json["jobs"].push_back(ManifestToJson(job));
  json["steps"] = Json::array();
  for (const ClientStep& step : manifest.steps) {
    json["steps"].push_back({{"client", ToHex(step.client)}, {"step", step.step}});
  }
  json["evicted"] = Json::array();
  for (const ClientId& id : manifest.evicted) json["evicted"].push_back(ToHex(id));
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
