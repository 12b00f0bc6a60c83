// Files of other programs as flags describe them.

#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "core/engine/data/import/importer.h"
#include "core/flags/command_line.h"

namespace dslide::cli {

struct ImportFlags {
  ImportOptions options;  // all but the tokenizer's kind
  std::string tokenizer = "words";
};

// What the files look like. `text` and `labels` name the flags of columns: "--text,--text-column".
void AddSourceOptions(CliCommand app, const std::string& text, const std::string& labels,
                      ImportFlags& flags);
// How texts are cut and which words and labels are kept.
void AddVocabularyOptions(CliCommand app, ImportFlags& flags);

// Errors: InvalidArgument naming the flag.
absl::StatusOr<ImportOptions> ResolveImport(const ImportFlags& flags);

}  // namespace dslide::cli
