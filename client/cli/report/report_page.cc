#include "client/cli/report/report_page.h"

#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "core/base/version.h"
#include "core/net/http/html.h"
#include "core/net/http/status_page.h"
#include "core/spec/model_spec_json.h"

namespace dslide::cli {
namespace {

using Json = nlohmann::ordered_json;

// Also for a browser that would load something for this page.
constexpr char kHead[] =
    "<meta http-equiv=\"Content-Security-Policy\" "
    "content=\"default-src 'none'; style-src 'unsafe-inline'\">";

std::string Whole(int64_t count) { return PageCount(static_cast<double>(count)); }

std::string Share(int64_t part, int64_t whole) {
  return whole > 0 ? absl::StrFormat("%.4f", static_cast<double>(part) / static_cast<double>(whole))
                   : "-";
}

std::string Paragraph(absl::string_view text) {
  return absl::StrCat("<p class=\"small\">", EscapeHtml(text), "</p>");
}

std::string Heading(absl::string_view text) {
  return absl::StrCat("<h2>", EscapeHtml(text), "</h2>");
}

std::optional<double> NumberOf(const Json& object, const std::string& key) {
  if (!object.is_object() || !object.contains(key) || !object[key].is_number()) return std::nullopt;
  return object[key].get<double>();
}

// The k that P@k was measured at, as the fields are ordered.
std::vector<int64_t> CutoffsOf(const Json& accuracy) {
  std::vector<int64_t> cutoffs;
  if (!accuracy.is_object()) return cutoffs;
  for (const auto& field : accuracy.items()) {
    absl::string_view name = field.key();
    int64_t k = 0;
    if (absl::ConsumePrefix(&name, "p_at_") && absl::SimpleAtoi(name, &k) &&
        field.value().is_number()) {
      cutoffs.push_back(k);
    }
  }
  return cutoffs;
}

std::string ResultOf(const RunReport& report) {
  std::vector<StatusFact> facts;
  if (const auto p = NumberOf(report.accuracy, "p_at_1")) {
    facts.push_back({"P@1 on the test points", absl::StrFormat("%.4f", *p)});
  }
  if (report.job.has_value()) {
    const JobStatus& job = *report.job;
    facts.push_back({"Job", absl::StrCat(job.job, ", ", job.state())});
    if (job.best_epoch >= 0) {
      facts.push_back({"Best P@1 on held-out points",
                       absl::StrFormat("%.4f, epoch %d", job.best_metric, job.best_epoch + 1)});
    }
  }
  if (report.record.has_value()) {
    const Json& result = report.record->result;
    if (const auto seconds = NumberOf(result, "seconds")) {
      facts.push_back({"Time of training", PageSeconds(*seconds)});
    }
    if (const auto pace = NumberOf(result, "samples_per_second"); pace.has_value() && *pace > 0) {
      facts.push_back({"Samples/s, evaluations not counted", PageCount(*pace)});
    }
    if (const auto peak = NumberOf(result, "peak_rss_bytes")) {
      facts.push_back({"Peak memory of the process", PageBytes(*peak)});
    }
  }
  return facts.empty() ? Paragraph("The training has not ended.") : RenderFacts(facts);
}

std::string ModelOf(const RunReport& report) {
  const ModelSpec& spec = report.spec;
  StatusTable tables{"What was trained",
                     {"table", "role", "rows", "floats a row", "stored as", "learning rate"},
                     {}};
  for (const TableSpec& table : spec.tables) {
    const bool records = IsRecordRole(table.role);
    tables.rows.push_back({table.name, std::string(RoleName(table.role)), Whole(table.rows),
                           records ? "records" : Whole(table.dim),
                           records ? "records" : std::string(PrecisionName(table.precision)),
                           records ? "-" : absl::StrFormat("%g", table.optimizer.learning_rate)});
  }
  std::string html = RenderTable(tables);
  std::vector<StatusFact> facts = {{"Seed", absl::StrCat(spec.seed)}};
  if (spec.FindRole(TableRole::kHead) != nullptr) {
    facts.push_back({"Epochs at most", absl::StrCat(spec.training.max_epochs)});
    facts.push_back({"Points a step", Whole(spec.training.batch_size)});
  }
  return absl::StrCat(html, RenderFacts(facts), "<details><summary>The whole spec</summary><pre>",
                      EscapeHtml(ModelSpecToJson(spec)), "</pre></details>");
}

std::string DataOf(const RunReport& report) {
  std::vector<StatusFact> facts;
  if (report.record.has_value()) {
    const RunRecord& record = *report.record;
    facts = {{"File", record.data},
             {"Points trained", Whole(record.training_points)},
             {"Points held out", Whole(record.held_out_points)},
             {"Fingerprint", absl::StrFormat("%016x", record.data_fingerprint)}};
    if (!record.eval.empty()) facts.push_back({"Test file", record.eval});
  } else if (report.job.has_value()) {
    facts.push_back({"Points of an epoch", Whole(report.job->samples_per_epoch)});
  }
  if (const TableSpec* input = report.spec.FindRole(TableRole::kEmbedding)) {
    facts.push_back({"Features", Whole(input->rows - (input->bias_row ? 1 : 0))});
  }
  facts.push_back({"Labels", Whole(report.spec.num_labels())});
  const LabelCounts& counts = report.label_counts;
  if (counts.points > 0) {
    int64_t pairs = 0;
    int64_t used = 0;
    for (const int64_t count : counts.of_label) {
      pairs += count;
      if (count > 0) ++used;
    }
    facts.push_back({"Labels that occur in training", Whole(used)});
    facts.push_back(
        {"Labels per point",
         absl::StrFormat("%.2f", static_cast<double>(pairs) / static_cast<double>(counts.points))});
  }
  return absl::StrCat(Heading("Data"), RenderFacts(facts));
}

std::string CurvesOf(const RunReport& report) {
  std::string charts;
  const auto add = [&](const char* title, std::optional<double> EpochResult::*field) {
    LineChart chart{.title = title, .x_name = "epoch"};
    for (const EpochResult& result : report.epochs()) {
      const std::optional<double>& value = result.*field;
      if (value.has_value()) chart.points.emplace_back(result.epoch + 1, *value);
    }
    absl::StrAppend(&charts, RenderLineChart(chart));
  };
  add("loss", &EpochResult::loss);
  add("P@1 on held-out points", &EpochResult::metric);
  add("samples/s", &EpochResult::samples_per_second);
  if (charts.empty()) charts = Paragraph("No epoch was trained: there are no curves.");
  return absl::StrCat(Heading("Curves"), charts);
}

std::string ComponentsOf(const RunReport& report) {
  if (!report.record.has_value()) return "";
  const Json& result = report.record->result;
  if (!result.is_object() || !result.contains("components")) return "";
  StatusTable table{"Components", {"component", "alone, held-out points", "weight"}, {}};
  const auto cell = [](const std::optional<double>& value) {
    return value.has_value() ? absl::StrFormat("%.4f", *value) : "-";
  };
  for (const auto& component : result["components"].items()) {
    table.rows.push_back({component.key(), cell(NumberOf(component.value(), "held_out_precision")),
                          cell(NumberOf(component.value(), "weight"))});
  }
  table.rows.push_back({"all of them", cell(NumberOf(result, "held_out_precision")), "-"});
  return absl::StrCat(
      RenderTable(table),
      Paragraph("Alone: the mean of P@1, P@3 and P@5. The weights add up their scores."));
}

std::string AccuracyOf(const RunReport& report) {
  const std::vector<int64_t> cutoffs = CutoffsOf(report.accuracy);
  if (cutoffs.empty()) {
    return absl::StrCat(Heading("Accuracy"),
                        Paragraph("Nothing was measured: name a test file with --data."));
  }
  StatusTable table{"Accuracy", {"metric"}, {}};
  for (const int64_t k : cutoffs) table.header.push_back(absl::StrCat("k = ", k));
  constexpr std::pair<const char*, const char*> kRows[] = {{"p", "P@k"},
                                                           {"ndcg", "nDCG@k"},
                                                           {"recall", "recall@k"},
                                                           {"psp", "PSP@k"},
                                                           {"psndcg", "PSnDCG@k"}};
  for (const auto& [field, name] : kRows) {
    std::vector<std::string> row = {name};
    bool any = false;
    for (const int64_t k : cutoffs) {
      const auto value = NumberOf(report.accuracy, absl::StrCat(field, "_at_", k));
      row.push_back(value.has_value() ? absl::StrFormat("%.4f", *value) : "-");
      any = any || value.has_value();
    }
    if (any) table.rows.push_back(std::move(row));
  }
  return absl::StrCat(RenderTable(table),
                      Paragraph(absl::StrCat("Measured on ", report.measured_on, ".")));
}

std::string FrequencyOf(const RunReport& report) {
  if (report.frequency.empty()) {
    return absl::StrCat(
        Heading("Accuracy by label frequency"),
        Paragraph("Not measured: it needs a test file (--data) and how often labels occur in "
                  "training (a model directory, or --training-data)."));
  }
  StatusTable table{"Accuracy by label frequency",
                    {"training points", "labels", "to be found", "among first 1", "first 3",
                     "first 5", "predicted first", "of these right"},
                    {}};
  for (const FrequencyBucket& bucket : report.frequency) {
    table.rows.push_back({bucket.name, Whole(bucket.labels), Whole(bucket.wanted),
                          Share(bucket.found_at_1, bucket.wanted),
                          Share(bucket.found_at_3, bucket.wanted),
                          Share(bucket.found_at_5, bucket.wanted), Whole(bucket.first),
                          Share(bucket.first_right, bucket.first)});
  }
  return absl::StrCat(
      RenderTable(table),
      Paragraph("To be found: pairs of a test point and one of its labels; beside it the share of "
                "them that is among the first predictions. Predicted first: test points whose "
                "first prediction is such a label."));
}

std::string MachineOf(const RunReport& report) {
  std::vector<StatusFact> facts;
  if (!report.trained_by.empty()) facts.push_back({"Trained by", report.trained_by});
  if (report.record.has_value()) {
    const RunMachine& machine = report.record->machine;
    facts.push_back({"Processor", machine.processor});
    facts.push_back(
        {"Threads used", absl::StrCat(report.record->threads, " of ", machine.processors)});
    facts.push_back({"Memory", PageBytes(static_cast<double>(machine.memory_bytes))});
    facts.push_back({"System", machine.system});
    facts.push_back({"Instruction set", machine.instruction_set});
  }
  facts.push_back({"Report by", VersionLine("dslide report")});
  return absl::StrCat(Heading("Machine and version"), RenderFacts(facts));
}

std::string RepeatOf(const RunReport& report) {
  if (!report.record.has_value()) return "";
  return absl::StrCat(Heading("Again"), "<pre>", EscapeHtml(report.record->command), "</pre>",
                      Paragraph("One trainer with one step in flight (--in-flight 1) makes the "
                                "same bits again on processors of one instruction set."));
}

}  // namespace

const std::vector<EpochResult>& RunReport::epochs() const {
  static const std::vector<EpochResult> no_epochs;
  if (job.has_value()) return job->epochs;
  return record.has_value() ? record->epochs : no_epochs;
}

std::string RenderRunReport(const RunReport& report) {
  return RenderDocument(absl::StrCat("Training of ", report.spec.name), kHead,
                        absl::StrCat(ResultOf(report), AccuracyOf(report), FrequencyOf(report),
                                     CurvesOf(report), ComponentsOf(report), ModelOf(report),
                                     DataOf(report), MachineOf(report), RepeatOf(report)));
}

}  // namespace dslide::cli
