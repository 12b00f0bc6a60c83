#include "client/cli/retire/command_model_retire.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "client/cli/console/exit_codes.h"
#include "client/cli/console/global_options.h"
#include "client/cli/console/terminal.h"
#include "client/cli/console/text_file.h"
#include "client/cli/train/model_session.h"
#include "core/base/status_macros.h"
#include "core/engine/data/name_list.h"
#include "core/engine/rows/row_layout.h"
#include "core/spec/retired_labels.h"

namespace dslide::cli {
namespace {

constexpr char kRetireExamples[] = R"(Examples:
  dslide model retire --cluster 127.0.0.1:7000 --name default --labels "sold out" --dry-run
  dslide model retire --cluster 127.0.0.1:7000 --name default --file gone.txt --yes
      A label's name a line. Predictions leave them out from the next one on.
  dslide model retire --model-dir my-model --numbers 3,7-12 --restore
      They may be predicted again. Their rows in the head begin anew.)";

struct RetireOptions {
  ModelOptions model;
  std::vector<std::string> labels;
  std::string file;
  std::string rows;
  bool restore = false;
  bool yes = false;
  bool dry_run = false;
};

// The names that flags and file give.
absl::StatusOr<std::vector<std::string>> WantedNames(const RetireOptions& options) {
  std::vector<std::string> names = options.labels;
  if (options.file.empty()) return names;
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(options.file));
  LineReader reader(text);
  absl::string_view line;
  while (reader.Next(&line)) {
    if (!line.empty()) names.emplace_back(line);
  }
  return names;
}

absl::StatusOr<RetiredLabels> WantedLabels(const RetireOptions& options, const StoredModel& model) {
  absl::StatusOr<RetiredLabels> wanted = RetiredLabels::Parse(options.rows);
  if (!wanted.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--numbers: ", wanted.status().message()));
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> names, WantedNames(options));
  if (names.empty() && wanted->empty()) {
    return absl::InvalidArgumentError(
        "name the labels: --labels NAME, --file FILE or --numbers 3,7");
  }
  if (names.empty()) return wanted;
  if (model.labels.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model \"", model.spec.name,
        "\" does not know what its labels are called: give numbers, --numbers 3,7-12"));
  }
  absl::flat_hash_map<absl::string_view, int64_t> numbers;
  for (size_t i = 0; i < model.labels.size(); ++i) {
    numbers.emplace(model.labels[i], static_cast<int64_t>(i));
  }
  std::vector<RetiredLabels::Range> ranges;
  for (const std::string& name : names) {
    const auto number = numbers.find(name);
    if (name.empty() || number == numbers.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "model \"", model.spec.name, "\" has no label \"", name, "\": nothing has changed"));
    }
    ranges.push_back({number->second, number->second});
  }
  return wanted->With(RetiredLabels(std::move(ranges)));
}

// What a head's rows of so many labels take in each image and checkpoint.
int64_t BytesOfRows(const ModelSpec& spec, int64_t labels) {
  const TableSpec* const head = spec.FindRole(TableRole::kHead);
  return head == nullptr ? 0 : labels * RowLayout::Of(*head).record_bytes;
}

std::string RowsSentence(const RetireOptions& options, const LabelRetirement& retirement) {
  const int64_t more = retirement.retired - retirement.retired_before;
  const int64_t bytes = BytesOfRows(retirement.spec, std::abs(more));
  if (bytes == 0) return "";
  if (more < 0) {
    return absl::StrCat(" The rows of the ", WithThousands(-more), " restored ones ",
                        options.dry_run ? "would begin anew." : "begin anew.");
  }
  return absl::StrCat(" The rows of ", WithThousands(more), " more ",
                      options.dry_run ? "would be" : "are", " freed, ",
                      ReadableBytes(static_cast<double>(bytes)), ": restored labels begin anew.");
}

void Print(const GlobalOptions& global, const RetireOptions& options,
           const LabelRetirement& retirement) {
  if (global.json()) {
    PrintLine(nlohmann::ordered_json{
        {"model", retirement.spec.name},
        {"retired_before", retirement.retired_before},
        {"retired", retirement.retired},
        {"labels", retirement.spec.retired_labels},
        {"freed_bytes",
         BytesOfRows(retirement.spec,
                     std::max<int64_t>(0, retirement.retired - retirement.retired_before))},
        {"changed", !options.dry_run && retirement.retired != retirement.retired_before}}
                  .dump());
    return;
  }
  PrintLine(absl::StrCat(
      "Of the ", WithThousands(retirement.spec.num_labels()), " labels of model ",
      retirement.spec.name, ", ", WithThousands(retirement.retired),
      options.dry_run ? " would be" : " are", " retired and never predicted; before ",
      WithThousands(retirement.retired_before), ".", RowsSentence(options, retirement)));
}

absl::StatusOr<int> RetireLabels(const GlobalOptions& global, const RetireOptions& options) {
  ModelOptions model = options.model;
  model.rows_only = true;
  model.use = options.dry_run ? ModelUse::kRead : ModelUse::kChange;
  ASSIGN_OR_RETURN(const std::unique_ptr<ModelSession> session, ModelSession::Open(global, model));
  ASSIGN_OR_RETURN(const RetiredLabels labels, WantedLabels(options, session->model()));
  if (!options.restore && !options.dry_run && !options.yes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "what model ", session->model().spec.name, " has learnt of labels ", labels.ToText(),
        " would be gone, but for checkpoints: add --yes, or --dry-run to see how much that is"));
  }
  ASSIGN_OR_RETURN(
      const LabelRetirement retirement,
      session->client().coordinator().RetireLabels(session->model().spec.name, labels.ToText(),
                                                   options.restore, options.dry_run));
  if (!options.dry_run) RETURN_IF_ERROR(session->KeepSpec(retirement.spec));
  RETURN_IF_ERROR(session->Close());
  Print(global, options, retirement);
  return kExitOk;
}

}  // namespace

void AddRetireCommand(CliCommand group, Context& context) {
  const auto options = std::make_shared<RetireOptions>();  // shared with the callback
  const CliCommand command = group.AddSubcommand(
      "retire", "Leave labels out of all predictions, and free their rows", kRetireExamples);
  options->model.job = "retire";
  AddModelOptions(command, options->model);
  command.Add("--labels", options->labels, "Names of labels").TypeName("NAME");
  AddOption(command, "--file", options->file, "File with the names of labels, one a line");
  AddOption(command, "--numbers", options->rows, "Numbers of labels, and ranges of them: 3,7-12");
  command.AddSwitch("--restore", options->restore, "They may be predicted again, and learn anew");
  command.AddSwitch("--yes", options->yes, "Do it: what their rows have learnt is gone");
  command.AddSwitch("--dry-run", options->dry_run, "Only say what would be");
  command.OnChosen([&context, options] {
    context.run = [&context, options] { return RetireLabels(context.global, *options); };
  });
}

}  // namespace dslide::cli
