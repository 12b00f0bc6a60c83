#include "client/cli/train/import_options.h"

#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/cli/console/global_options.h"
#include "core/base/status_macros.h"
#include "core/engine/data/text/tokenizer_json.h"

namespace dslide::cli {
namespace {

// Without those at the end that have no name.
std::vector<std::string> Named(std::vector<std::string> names) {
  while (!names.empty() && names.back().empty()) names.pop_back();
  return names;
}

absl::Status KeepNames(const StoredModel& model, ImportOptions* options) {
  const bool cuts_texts = options->source.format != ImportFormat::kSvmlight;
  const bool has_names = !model.labels.empty() && !model.features.names.empty() &&
                         !model.features.names.front().empty();
  if (!has_names || (cuts_texts && !model.tokenizer.has_value())) {
    return absl::FailedPreconditionError(
        absl::StrCat(options->files.front(), ": the model does not know ",
                     has_names ? "how texts are cut (its data had no tokenizer.json)"
                               : "what features and labels are called (its data had no names)",
                     "; give the points as sparse text instead"));
  }
  const TokenizerOptions kept = model.tokenizer.value_or(TokenizerOptions());
  if (cuts_texts && options->tokenizer != TokenizerOptions() && options->tokenizer != kept) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--tokenizer, --keep-case, --min-characters, --max-characters: the texts of the model are "
        "cut otherwise, ",
        absl::StripAsciiWhitespace(TokenizerToJson(kept)), ": leave them out"));
  }
  options->tokenizer = kept;
  options->known = {.features = Named(model.features.names), .labels = Named(model.labels)};
  return absl::OkStatus();
}

}  // namespace

void AddSourceOptions(CliCommand app, const std::string& text, const std::string& labels,
                      ImportFlags& flags) {
  ImportSource& source = flags.options.source;
  app.Add(text, source.text_columns,
          "Column of CSV or JSON with text, by name or number; may be repeated")
      .OneValueEach()
      .TypeName("COLUMN")
      .ShowDefault();
  app.Add(labels, source.label_columns, "Column with labels, by name or number; may be repeated")
      .OneValueEach()
      .TypeName("COLUMN")
      .ShowDefault();
  AddOption(app, "--label-separator", source.label_separator,
            "What stands between the labels of one field; without it a field is one label");
  AddOption(app, "--delimiter", source.delimiter, "What stands between fields of CSV, or tab")
      .ShowDefault();
  app.AddSwitch("!--no-header", source.has_header,
                "The first row of CSV is data; columns are numbers");
  app.AddSwitch("!--no-quotes", source.has_quotes,
                "In CSV, \" is a character like others, as many TSV files have it");
}

void AddVocabularyOptions(CliCommand app, ImportFlags& flags) {
  ImportOptions& options = flags.options;
  AddOption(app, "--tokenizer", flags.tokenizer, "How texts are cut into words")
      .OneOf({"words", "whitespace", "characters"})
      .ShowDefault();
  app.AddSwitch("!--keep-case", options.tokenizer.lower_case,
                "Capitals and small letters are different");
  AddOption(app, "--min-characters", options.tokenizer.min_characters,
            "With --tokenizer characters: the shortest runs")
      .ShowDefault();
  AddOption(app, "--max-characters", options.tokenizer.max_characters,
            "With --tokenizer characters: the longest runs")
      .ShowDefault();
  AddOption(app, "--max-features", options.max_features,
            "Words kept at most, those on most points");
  AddOption(app, "--min-label-count", options.min_label_count,
            "Labels on fewer training points are left out");
}

absl::StatusOr<ImportOptions> ResolveImport(const ImportFlags& flags) {
  ImportOptions options = flags.options;
  ASSIGN_OR_RETURN(options.tokenizer.kind, TokenizerKindFromName(flags.tokenizer));
  if (flags.continued != nullptr) RETURN_IF_ERROR(KeepNames(*flags.continued, &options));
  return options;
}

}  // namespace dslide::cli
