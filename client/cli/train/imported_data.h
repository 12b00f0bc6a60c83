// Files of other programs as data to train on, without a data set of them that stays.

#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "client/cli/model/model_dir.h"
#include "client/cli/train/import_options.h"
#include "core/base/parallel.h"
#include "core/engine/data/dataset.h"
#include "core/engine/data/import/importer.h"

namespace dslide::cli {

// What the name of a file says: .csv, .tsv, .jsonl, .ndjson, .json, .svm, .svmlight or .libsvm,
// compressed or not. Nothing for others.
std::optional<ImportFormat> ImportFormatOf(const std::string& path);

struct ImportedData {
  std::unique_ptr<Dataset> data;
  std::unique_ptr<Dataset> eval;  // null without a file for it
  std::optional<TokenizerOptions> tokenizer;
};

// Imports into a folder of $TMPDIR that is gone when this returns; the data lives on as long as the
// result. `eval`: "", or a file of the same format. Errors: those of ImportData().
absl::StatusOr<ImportedData> OpenImported(const std::string& data, const std::string& eval,
                                          const ImportFlags& flags, Parallelism parallelism,
                                          bool quiet);

// Every row of a file as a point of the model, in order, in the same way; a column for labels need
// not be there. Errors: those of ImportForModel(); FailedPrecondition when the model does not know
// how texts are cut or what features are called.
absl::StatusOr<std::unique_ptr<Dataset>> OpenImportedFor(const StoredModel& model,
                                                         const std::string& path,
                                                         const ImportFlags& flags,
                                                         Parallelism parallelism);

// Notes to stderr, every few seconds, for ImportOptions::progress.
std::function<void(const std::string& path, int64_t done_bytes, int64_t total_bytes)>
ImportProgress();
// A note to stderr when fields of labels seem to hold several.
void NoteSuspectedSeparator(const ImportReport& report);

}  // namespace dslide::cli
