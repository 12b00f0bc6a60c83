// Files of other programs as flags describe them.

#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/model/model_dir.h"
#include "core/engine/data/import/importer.h"
#include "core/flags/command_line.h"

namespace dslide::cli {

struct ImportFlags {
  ImportOptions options;  // all but the tokenizer's kind
  std::string tokenizer = "words";
  // What the data is for, if it is there already: its names keep their numbers, and texts are cut
  // as its data was. Outlives the flags.
  const StoredModel* continued = nullptr;
};

// What the files look like. `text` and `labels` name the flags of columns: "--text,--text-column".
void AddSourceOptions(CliCommand app, const std::string& text, const std::string& labels,
                      ImportFlags& flags);
// How texts are cut and which words and labels are kept.
void AddVocabularyOptions(CliCommand app, ImportFlags& flags);

// Requires the files and their format. Rows of the continued model that have no name yet get new
// ones if all behind them have none, either. Errors: InvalidArgument naming the flag, also one that
// asks for another cut than the continued model's; FailedPrecondition when that does not know what
// features and labels are called, or how texts are cut.
absl::StatusOr<ImportOptions> ResolveImport(const ImportFlags& flags);

}  // namespace dslide::cli
