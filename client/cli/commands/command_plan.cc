// dslide plan

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/cluster/model_plan.h"
#include "client/cli/commands/command_line.h"
#include "client/cli/console/exit_codes.h"
#include "client/cli/console/terminal.h"
#include "client/cli/train/component_session.h"
#include "client/cli/train/data_source.h"
#include "client/cli/train/spec_options.h"
#include "client/trainer/batch_preparer.h"
#include "core/base/status_macros.h"
#include "core/base/units.h"
#include "core/partition/slot_map.h"

namespace dslide::cli {
namespace {

constexpr char kHelp[] = R"(Does this model fit on these machines, and what will a step move?

Memory is that of the fullest shard: rows and hash tables exactly as a shard allocates them, plus
estimates of the memory of open steps and of the process itself. Bytes of a step are the sizes of
its encoded messages. Nothing is allocated or contacted. The exit code is 0 also when it does not
fit: "fits" of -o json says so.

With --data, or --points and the other sizes, it plans what train makes of data without a spec:
memory, label trees, linear rows and their fusion. --data counts points and centroids, and solves
some of the rows to see how many weights are kept; from sizes alone these are guesses.

Examples:
  dslide plan --model docs/models/wide-670k.json --rows 670091 --features 135909 --shards 2
  dslide plan --rows 7800000 --features 100000 --shards 4 --memory 6GiB
      A model without a spec file: embedding and head of width --dim, Adam.
  dslide plan --rows 31000000 --features 100000 --shards 4 --memory 6GiB \
      --precision bf16_weights --optimizer row-wise-adagrad
      The same machines, four times the model.
  dslide plan --model my.json --rows 1000000 --features 50000 --batch 256 --link 100mbit \
      --activations bf16 --features-per-sample 80 --labels-per-sample 5 -o json
  dslide plan --data train.txt --shards 2 --memory 2GiB
      What train --data train.txt will need.
  dslide plan --points 10000000 --features 500000 --rows 2000000 --features-per-sample 30 \
      --labels-per-sample 5 --shards 8)";

struct PlanOptions {
  SpecOptions spec;
  PlannedSizes sizes;
  std::string data;
  DataOptions source;
  std::string memory;
  std::string link = "1gbit";
  // Of a sample; unset: those of the data, or the plan's own.
  std::optional<double> features_per_sample;
  std::optional<double> labels_per_sample;
  PlanInput input;
};

// "1gbit", "100mbit", "2.5gbit": bits per second.
absl::StatusOr<double> ParseLink(const std::string& text) {
  const std::string lower = absl::AsciiStrToLower(text);
  const size_t end = lower.find_first_not_of("0123456789.");
  const std::string unit = end == std::string::npos ? "" : lower.substr(end);
  const double scale = unit == "gbit" ? 1e9 : unit == "mbit" ? 1e6 : unit == "kbit" ? 1e3 : 0.0;
  double number = 0.0;
  if (scale == 0.0 || !absl::SimpleAtod(lower.substr(0, end), &number) || !(number > 0.0) ||
      !std::isfinite(number)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--link ", text, ": say a rate as 100mbit, 1gbit or 2.5gbit"));
  }
  return number * scale;
}

absl::Status CheckRange(const char* flag, double value, double low, double high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("%s %g: must be in [%g, %g]", flag, value, low, high));
}

// Spec, sizes of samples, and content of the tables of records, from the data.
absl::Status PlanData(const PlanOptions& options, const GlobalOptions& global, PlanInput& input,
                      std::string* explanation) {
  const PlannedSizes& sizes = options.sizes;
  if (sizes.rows || sizes.features || sizes.points) {
    return absl::InvalidArgumentError(
        "--data says how many --points, --features and --rows there are: leave them out");
  }
  const Parallelism parallelism = ThreadsOrAll(0);
  DataOptions source = options.source;
  ASSIGN_OR_RETURN(source.served, ServedDataOf(global));
  ASSIGN_OR_RETURN(const ImportedData opened,
                   OpenTrainingData(options.data, "", source, parallelism, global.quiet));
  const Dataset& data = *opened.data;
  RETURN_IF_ERROR(CheckHasLabels(data));
  SpecOptions spec = options.spec;
  spec.network = options.source.text;
  ASSIGN_OR_RETURN(input.spec, ResolveSpec(spec, data, explanation));
  ASSIGN_OR_RETURN(const PointSizes points, SamplePointSizes(data));
  input.features_per_sample = points.features;
  input.labels_per_sample = points.labels;
  if (!HasComponents(input.spec)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const TrainingSplit split, SplitPoints("", data.num_points(), input.spec));
  ASSIGN_OR_RETURN(const std::vector<float> idf, ComputeIdf(data, split, parallelism));
  ASSIGN_OR_RETURN(input.content,
                   ContentOf(data, split, ToValueTransform(input.spec.training.transform), idf,
                             input.spec, input.shards, parallelism));
  return absl::OkStatus();
}

absl::StatusOr<PlanInput> ReadOptions(const PlanOptions& options, const GlobalOptions& global,
                                      std::string* explanation) {
  PlanInput input = options.input;
  RETURN_IF_ERROR(CheckRange("--shards", static_cast<double>(input.shards), 1,
                             static_cast<double>(kMaxShards)));
  RETURN_IF_ERROR(CheckRange("--threads", input.threads, 1, 1024));
  ASSIGN_OR_RETURN(input.link_bits_per_second, ParseLink(options.link));
  if (!options.memory.empty()) {
    const absl::StatusOr<int64_t> bytes = ParseByteSize(options.memory);
    if (!bytes.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("--memory: ", bytes.status().message()));
    }
    input.memory_bytes = *bytes;
  }
  if (options.data.empty()) {
    ASSIGN_OR_RETURN(input.spec, ResolveSpec(options.spec, options.sizes, explanation));
  } else {
    RETURN_IF_ERROR(PlanData(options, global, input, explanation));
  }
  input.features_per_sample = options.features_per_sample.value_or(input.features_per_sample);
  input.labels_per_sample = options.labels_per_sample.value_or(input.labels_per_sample);
  RETURN_IF_ERROR(CheckRange("--features-per-sample", input.features_per_sample, 0, 65536));
  RETURN_IF_ERROR(CheckRange("--labels-per-sample", input.labels_per_sample, 0, 65536));
  if (HasComponents(input.spec) && !input.content.has_value()) {
    const TableSpec& memory = *input.spec.FindRole(TableRole::kMemory);
    input.content = GuessContent({.points = memory.rows,
                                  .features = options.sizes.features.value_or(0),
                                  .labels = memory.memory.labels},
                                 input.features_per_sample, input.labels_per_sample, input.spec);
  }
  return input;
}

nlohmann::ordered_json TableJson(const TablePlan& table, const TableSpec& spec) {
  nlohmann::ordered_json json;
  json["name"] = table.name;
  json["rows"] = table.rows;
  json["dim"] = spec.dim;
  json["precision"] = std::string(PrecisionName(spec.precision));
  json["record_bytes"] = table.record_bytes;
  json["weight_bytes"] = table.bytes.weights;
  json["state_bytes"] = table.bytes.state;
  json["overhead_bytes"] = table.bytes.overhead;
  json["hash_table_bytes"] = table.bytes.hash_tables;
  json["hash_code_bytes"] = table.bytes.hash_codes;
  json["dirty_flag_bytes"] = table.bytes.dirty;
  json["working_bytes"] = table.working_bytes;
  if (IsRecordRole(spec.role)) {
    json["records"] = table.records;
    json["index_bytes"] = table.index_bytes;
  }
  json["total_bytes"] = table.total();
  return json;
}

nlohmann::ordered_json RecordsJson(const ComponentContent& content, const RecordPlan& plan) {
  const auto rows = [](const RowContent& some) {
    return nlohmann::ordered_json{{"rows", std::llround(some.rows)},
                                  {"weights", std::llround(some.weights)}};
  };
  nlohmann::ordered_json json;
  json["from_data"] = content.of_data;
  json["points"] = content.points;
  json["features_per_point"] = content.features_per_point;
  json["labels_per_point"] = content.labels_per_point;
  json["centroids"] = rows(content.centroids);
  json["clusters"] = rows(content.clusters);
  json["label_rows"] = rows(content.labels);
  json["kept_weights_share"] = nullptr;
  if (content.of_data) json["kept_weights_share"] = content.kept_share();
  json["checkpoint_bytes"] = plan.checkpoint_bytes;
  json["bytes_sent"] = {{"points", plan.points_sent},
                        {"trees", plan.trees_sent},
                        {"queries", plan.queries_sent},
                        {"network", plan.network_sent},
                        {"total", plan.sent()}};
  return json;
}

std::string PlanToJson(const PlanInput& input, const ModelPlan& plan) {
  nlohmann::ordered_json json;
  json["model"] = input.spec.name;
  json["parameters"] = plan.parameters;
  json["shards"] = input.shards;
  json["tables"] = nlohmann::ordered_json::array();
  for (size_t i = 0; i < plan.shard.tables.size(); ++i) {
    json["tables"].push_back(TableJson(plan.shard.tables[i], input.spec.tables[i]));
  }
  json["step_bytes_estimate"] = plan.shard.step_bytes;
  json["process_bytes_estimate"] = plan.shard.process_bytes;
  json["shard_bytes"] = plan.shard.total();
  json["all_shards_bytes"] = plan.all_shards_bytes;
  json["memory_bytes"] = nullptr;
  json["fits"] = nullptr;
  if (plan.fits.has_value()) {
    json["memory_bytes"] = *input.memory_bytes;
    json["fits"] = *plan.fits;
  }
  json["remedies"] = plan.remedies;
  if (plan.records.has_value()) json["components"] = RecordsJson(*input.content, *plan.records);
  nlohmann::ordered_json wire;
  wire["batch"] = input.spec.training.batch_size;
  wire["features_per_sample"] = input.features_per_sample;
  wire["labels_per_sample"] = input.labels_per_sample;
  wire["request_bytes_per_step_and_shard"] = plan.wire.request_bytes;
  wire["reply_bytes_per_step_and_shard"] = plan.wire.reply_bytes;
  wire["bytes_per_sample_and_shard"] = plan.wire.bytes_per_sample;
  wire["largest_message_bytes"] = plan.wire.largest_message_bytes;
  wire["sendable_batch"] = plan.wire.sendable_batch;
  wire["bytes_per_step"] = plan.wire.step_bytes;
  wire["dense_bytes_per_step"] = plan.wire.dense_step_bytes;
  wire["link_bits_per_second"] = input.link_bits_per_second;
  wire["max_steps_per_second"] = plan.wire.max_steps_per_second;
  wire["max_dense_steps_per_second"] = plan.wire.max_dense_steps_per_second;
  json["wire"] = wire;
  return json.dump();
}

std::string Readable(int64_t bytes) { return ReadableBytes(static_cast<double>(bytes)); }

// A table of the tables of numbers, and one of those of records, as far as there are any.
std::string TablesToText(const PlanInput& input, const ModelPlan& plan) {
  std::vector<std::vector<std::string>> lines;
  std::vector<std::vector<std::string>> records;
  for (size_t i = 0; i < plan.shard.tables.size(); ++i) {
    const TablePlan& table = plan.shard.tables[i];
    const TableBytes& bytes = table.bytes;
    if (IsRecordRole(input.spec.tables[i].role)) {
      records.push_back({table.name, WithThousands(table.rows), WithThousands(table.records),
                         WithThousands(table.record_bytes), Readable(bytes.weights),
                         Readable(bytes.overhead), Readable(table.index_bytes),
                         Readable(table.total())});
      continue;
    }
    lines.push_back({table.name, WithThousands(table.rows), absl::StrCat(table.record_bytes),
                     Readable(bytes.weights), Readable(bytes.state), Readable(bytes.overhead),
                     Readable(bytes.hash_tables), Readable(bytes.hash_codes),
                     Readable(bytes.dirty + table.working_bytes), Readable(table.total())});
  }
  std::vector<std::string> parts;
  if (!lines.empty()) {
    parts.push_back(FormatTable({"table", "rows", "bytes/row", "weights", "state", "overhead",
                                 "hash tables", "codes", "flags+work", "total"},
                                lines));
  }
  if (!records.empty()) {
    parts.push_back(FormatTable({"table", "rows", "records", "bytes/record", "records' bytes",
                                 "overhead", "index", "total"},
                                records));
  }
  return absl::StrJoin(parts, "\n\n");
}

std::string MemoryToText(const PlanInput& input, const ModelPlan& plan) {
  std::string text = absl::StrFormat(
      "Model \"%s\": %s parameters on %d shard%s. The fullest shard holds:\n\n%s\n\n"
      "open steps  %s (estimate)\nprocess     %s (estimate)\na shard     %s\nall shards  %s",
      input.spec.name, WithThousands(plan.parameters), input.shards, input.shards == 1 ? "" : "s",
      TablesToText(input, plan), Readable(plan.shard.step_bytes),
      Readable(plan.shard.process_bytes), Readable(plan.shard.total()),
      Readable(plan.all_shards_bytes));
  if (!plan.fits.has_value()) return absl::StrCat(text, "\n\nSay --memory SIZE for a verdict.");
  absl::StrAppend(&text, "\n\n", *plan.fits ? "It fits into " : "It does NOT fit into ",
                  Readable(*input.memory_bytes), " a shard.");
  for (const std::string& remedy : plan.remedies) absl::StrAppend(&text, "\n  ", remedy);
  return text;
}

std::string RecordsToText(const ComponentContent& content, const RecordPlan& plan) {
  const auto rows = [](const RowContent& some, const char* what) {
    return absl::StrFormat("%s %s of %.0f weights", WithThousands(std::llround(some.rows)), what,
                           some.weights / std::max(some.rows, 1.0));
  };
  const std::string kept =
      content.of_data ? absl::StrFormat("%.0f %% of the weights that are solved for are kept.",
                                        100 * content.kept_share())
                      : "--data FILE would count them.";
  return absl::StrFormat(
      "\n\nSparse rows over all shards, %s:\n%s, %s,\n%s. %s\n"
      "A checkpoint takes %s. The training sends %s: points %s, trees %s, queries %s,\n"
      "epochs of the network %s.",
      content.of_data ? "from the data" : "a guess", rows(content.centroids, "centroids"),
      rows(content.clusters, "rows of clusters"), rows(content.labels, "rows of labels"), kept,
      Readable(plan.checkpoint_bytes), Readable(plan.sent()), Readable(plan.points_sent),
      Readable(plan.trees_sent), Readable(plan.queries_sent), Readable(plan.network_sent));
}

std::string WireToText(const PlanInput& input, const ModelPlan& plan) {
  const WirePlan& wire = plan.wire;
  std::string text = absl::StrFormat(
      "\n\nA step of %d samples, %g features and %g labels each, sends %s to each shard and gets "
      "%s "
      "back:\n%.0f bytes a sample and shard, %s a step over all shards. A dense all-reduce would "
      "move %s.\nThe trainer's link of %g Mbit/s allows %.1f steps/s at most (%.0f samples/s); "
      "dense: "
      "%.3f steps/s.",
      input.spec.training.batch_size, input.features_per_sample, input.labels_per_sample,
      ReadableBytes(static_cast<double>(wire.request_bytes)),
      ReadableBytes(static_cast<double>(wire.reply_bytes)), wire.bytes_per_sample,
      ReadableBytes(static_cast<double>(wire.step_bytes)),
      ReadableBytes(static_cast<double>(wire.dense_step_bytes)), input.link_bits_per_second / 1e6,
      wire.max_steps_per_second,
      wire.max_steps_per_second * static_cast<double>(input.spec.training.batch_size),
      wire.max_dense_steps_per_second);
  if (wire.sendable_batch < input.spec.training.batch_size) {
    absl::StrAppend(&text, "\nThis CANNOT be sent: one of its messages has ",
                    ReadableBytes(static_cast<double>(wire.largest_message_bytes)),
                    ", and 4 MiB are the most. Give --batch-size ", wire.sendable_batch,
                    " or less, or more shards.");
  }
  return text;
}

std::string PlanToText(const PlanInput& input, const ModelPlan& plan) {
  std::string text = MemoryToText(input, plan);
  if (plan.records.has_value()) {
    absl::StrAppend(&text, RecordsToText(*input.content, *plan.records));
  }
  if (plan.wire.step_bytes > 0) absl::StrAppend(&text, WireToText(input, plan));
  return text;
}

absl::StatusOr<int> RunPlan(const GlobalOptions& global, const PlanOptions& options) {
  std::string explanation;
  ASSIGN_OR_RETURN(const PlanInput input, ReadOptions(options, global, &explanation));
  ASSIGN_OR_RETURN(const ModelPlan plan, MakePlan(input));
  if (!explanation.empty() && !global.quiet) PrintNote(explanation);
  PrintLine(global.json() ? PlanToJson(input, plan) : PlanToText(input, plan));
  return kExitOk;
}

}  // namespace

void AddPlanCommand(CliCommand app, Context& context) {
  const CliCommand command =
      app.AddSubcommand("plan", "Tell what a model will need: memory and network", kHelp);
  auto options = std::make_shared<PlanOptions>();  // shared with the callback
  AddSpecOptions(command, options->spec);
  AddOption(command, "--data", options->data, "Training data: what its training will need");
  AddDataOptions(command, options->source);
  AddOption(command, "--points", options->sizes.points,
            "Points of the memory; without a spec: plan what train makes of data without one");
  AddOption(command, "--rows", options->sizes.rows, "Labels: rows of the head");
  AddOption(command, "--features", options->sizes.features, "Features: rows of the embedding");
  AddOption(command, "--shards", options->input.shards, "Shards of equal capacity");
  AddOption(command, "--memory", options->memory, "Memory of each shard, e.g. 8GiB");
  AddOption(command, "--threads", options->input.threads, "Threads of each shard");
  AddOption(command, "--link", options->link, "Rate of the trainer's network link, e.g. 1gbit");
  AddOption(command, "--features-per-sample", options->features_per_sample,
            "Features of a sample, on average");
  AddOption(command, "--labels-per-sample", options->labels_per_sample,
            "Labels of a sample, on average");
  RunWhenChosen(command, context, options, RunPlan);
}

}  // namespace dslide::cli
