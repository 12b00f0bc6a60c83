#include "services/coordinator/jobs/job_record_json.h"

#include <optional>
#include <string>
#include <utility>

#include "core/base/status_macros.h"
#include "core/spec/json_archive.h"
#include "core/spec/model_spec_visitor.h"

namespace dslide::coordinator {
namespace {

std::optional<double> NumberOrNone(const OrderedJson& value) {
  return value.is_null() ? std::nullopt : std::optional(value.get<double>());
}

}  // namespace

OrderedJson JobRecordToJson(const JobRecord& job) {
  OrderedJson done = OrderedJson::array();
  for (const JobRecord::Range& range : job.done) done.push_back({range.first, range.count});
  OrderedJson epochs = OrderedJson::array();
  for (const EpochResult& result : job.epochs) {
    epochs.push_back({{"epoch", result.epoch},
                      {"loss", NumberOrNull(result.loss)},
                      {"metric", NumberOrNull(result.metric)}});
    if (result.samples_per_second.has_value()) {
      epochs.back()["samples_per_second"] = *result.samples_per_second;
    }
  }
  OrderedJson rates = OrderedJson::array();
  for (const TableRate& rate : job.spec.rates) rates.push_back(FieldsToJson(rate));
  return {{"job", job.spec.job},
          {"model", job.spec.model},
          {"samples_per_epoch", job.spec.samples_per_epoch},
          {"chunk_samples", job.spec.chunk_samples},
          {"max_epochs", job.spec.max_epochs},
          {"patience_epochs", job.spec.patience_epochs},
          {"evaluate", job.spec.evaluate},
          {"seed", job.spec.seed},
          {"data_fingerprint", job.spec.data_fingerprint},
          {"staged", job.spec.staged},
          {"training", FieldsToJson(job.spec.training)},
          {"rates", std::move(rates)},
          {"epoch", job.epoch},
          {"stage", JobStageName(job.stage)},
          {"finished", job.finished},
          {"done", std::move(done)},
          {"best_epoch", job.best_epoch},
          {"best_metric", job.best_metric},
          {"epochs_without_better", job.epochs_without_better},
          {"best_restored", job.best_restored},
          {"cancelled", job.cancelled},
          {"epochs", std::move(epochs)}};
}

absl::StatusOr<JobRecord> JobRecordFromJson(const OrderedJson& json) {
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
  json.at("staged").get_to(job.spec.staged);
  absl::Status status;
  FieldsFromJson(json.at("training"), "training", &status, job.spec.training);
  for (const OrderedJson& rate : json.at("rates")) {
    FieldsFromJson(rate, "rates", &status, job.spec.rates.emplace_back());
  }
  RETURN_IF_ERROR(status);
  json.at("epoch").get_to(job.epoch);
  const std::string stage = json.at("stage").get<std::string>();
  for (const JobStage known : {JobStage::kPreparation, JobStage::kCompletion}) {
    if (stage == JobStageName(known)) job.stage = known;
  }
  json.at("finished").get_to(job.finished);
  for (const OrderedJson& range : json.at("done")) {
    job.done.push_back({range.at(0).get<int64_t>(), range.at(1).get<int64_t>()});
  }
  json.at("best_epoch").get_to(job.best_epoch);
  json.at("best_metric").get_to(job.best_metric);
  json.at("epochs_without_better").get_to(job.epochs_without_better);
  json.at("best_restored").get_to(job.best_restored);
  json.at("cancelled").get_to(job.cancelled);
  for (const OrderedJson& entry : json.at("epochs")) {
    job.epochs.push_back({.epoch = entry.at("epoch").get<int64_t>(),
                          .loss = NumberOrNone(entry.at("loss")),
                          .metric = NumberOrNone(entry.at("metric"))});
    // Absent in records of earlier versions.
    const auto pace = entry.find("samples_per_second");
    if (pace != entry.end()) job.epochs.back().samples_per_second = NumberOrNone(*pace);
  }
  return job;
}

}  // namespace dslide::coordinator
