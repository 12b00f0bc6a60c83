// Datasets as the command line names them.

#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/cli/model/model_dir.h"
#include "client/cli/source/served_dataset_client.h"
#include "client/cli/train/import_options.h"
#include "client/cli/train/imported_data.h"
#include "core/base/parallel.h"
#include "core/engine/data/dataset.h"
#include "core/engine/data/text_dataset.h"
#include "core/flags/command_line.h"

namespace dslide::cli {

struct DataOptions {
  bool text = false;  // plain text: words and their neighbours
  int64_t window = 2;
  int64_t min_count = 5;
  int64_t max_vocabulary = 1000000;
  ImportFlags import = {};        // of files of other programs
  ServedDataOptions served = {};  // of data that a server has
};

void AddDataOptions(CliCommand app, DataOptions& options);
// For commands that also take files of other programs.
void AddImportedDataOptions(CliCommand app, DataOptions& options);

// What a training reads: data sets as OpenData() knows them, or files that ImportFormatOf() knows.
// `eval` may be "". Errors: those of OpenData() and OpenImported(); InvalidArgument when the parts
// have different shapes.
absl::StatusOr<ImportedData> OpenTrainingData(const std::string& data, const std::string& eval,
                                              const DataOptions& options, Parallelism parallelism,
                                              bool quiet);

// Opens a sparse or plain-text file; `vocabulary` (of a trained text model) may be null.
// Errors: those of SparseDataset::Open() and TextDataset::Open().
absl::StatusOr<std::unique_ptr<Dataset>> OpenData(const std::string& path,
                                                  const DataOptions& options,
                                                  std::shared_ptr<const Vocabulary> vocabulary,
                                                  Parallelism parallelism);

// Opens data for a model that was trained before, and checks that it fits; or imports a file that
// ImportFormatOf() knows.
absl::StatusOr<std::unique_ptr<Dataset>> OpenDataFor(const StoredModel& model,
                                                     const std::string& path,
                                                     const ImportFlags& import,
                                                     const ServedDataOptions& served,
                                                     Parallelism parallelism);

// The data without labels that the model has retired: nothing is learnt of them, and nobody is
// blamed for not predicting them. The data itself where there are none.
std::unique_ptr<Dataset> WithoutRetiredLabels(std::unique_ptr<Dataset> data, const ModelSpec& spec);
// The same for the data of a training; eval may be null. The points of a memory keep all of their
// labels: it would refuse them as others. Errors: those of CheckHasLabels().
absl::Status LeaveOutRetiredLabels(const ModelSpec& spec, std::unique_ptr<Dataset>& data,
                                   std::unique_ptr<Dataset>& eval);

// The vocabulary of a text dataset, null for others.
std::shared_ptr<const Vocabulary> VocabularyOf(const Dataset& data);

// All threads of the machine unless `threads` > 0.
Parallelism ThreadsOrAll(int64_t threads);

// Where a model comes from that this version trains on such data. shards: embedded ones; 0: those
// of a cluster.
ModelOrigin OriginOf(const DataOptions& source, int64_t shards, uint64_t seed);

}  // namespace dslide::cli
