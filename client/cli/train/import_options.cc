#include "client/cli/train/import_options.h"

#include "client/cli/console/global_options.h"
#include "core/base/status_macros.h"

namespace dslide::cli {

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
  return options;
}

}  // namespace dslide::cli
