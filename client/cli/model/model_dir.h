// The directory that keeps a trained model beside the shards' own files.
//
//   model.json      the model's spec, every size set
//   dslide.json     how it was made: format, shards, seed, revision, kind of data
//   features.tsv    one line a feature: idf, tab, name
//   labels.txt      one line a label: its name; absent when the data had no names
//   label_counts.txt  the training points, then one line a label: those that carry it; absent in
//                   directories of earlier versions
//   vocabulary.tsv  of text models: count, tab, word
//   tokenizer.json  by which texts were cut (tokenizer_json.h); absent when the data does not say
//   run.json        how it was trained, for dslide report (run_record.h); absent in directories of
//                   earlier versions and of imported models
//   FILES           size and checksum of each of these (model_files.h)
//   coordinator/, shard-0/, shard-1/, ...   the embedded cluster's data; absent for models of a
//   cluster
//
// Nothing of it changes: a model takes the place of another as a whole (model_dir_writer.h). So any
// number of processes read it, also where it is read-only, while a training writes the next one.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/engine/data/dataset.h"
#include "core/engine/data/dataset_info.h"
#include "core/engine/data/text/tokenizer.h"
#include "core/engine/data/text_dataset.h"
#include "core/engine/data/transform.h"
#include "core/spec/model_spec.h"

namespace dslide::cli {

inline constexpr int kModelDirFormat = 1;

// dslide.json
struct ModelOrigin {
  int format = kModelDirFormat;
  int64_t shards = 0;  // of the embedded cluster; 0: the rows are in a cluster's shards
  uint64_t seed = 0;
  std::string version;
  std::string revision;
  std::string data_kind = "sparse";  // or "text"
  int64_t text_window = 0;           // of text models
};

struct StoredModel {
  ModelOrigin origin;
  ModelSpec spec;
  FeatureStats features;
  std::vector<std::string> labels;               // [labels], or empty
  LabelCounts label_counts;                      // of the training data; points = 0: unknown
  std::shared_ptr<const Vocabulary> vocabulary;  // of text models; shared with their datasets
  std::optional<TokenizerOptions> tokenizer;     // by which the features were cut; if known
  std::string run_record;                        // run.json as it is; "" when there is none

  // "" when unknown.
  absl::string_view LabelName(RowId label) const;
};

// Which model is in a directory: another value once it was replaced. Errors: as LoadModel().
absl::StatusOr<std::string> ModelDirVersion(const std::string& path);

// Writes the texts into a new directory. Errors: system errors naming the file.
absl::Status SaveModel(const std::string& path, const StoredModel& model);
// Writes run.json anew, in a directory that nobody reads yet. Errors: system errors naming the
// file.
absl::Status SaveRunRecord(const std::string& path, const std::string& content);
// Errors: NotFound when the directory holds no model, with the remedy; PermissionDenied when it may
// not be read; DataLoss when its files are not those that were written; InvalidArgument for a newer
// format or malformed files. A directory without FILES is loaded with a warning on stderr.
absl::StatusOr<StoredModel> LoadModel(const std::string& path);

// Whether the rows of a model whose embedded cluster keeps them in the directory are all there;
// the cluster itself would make missing ones afresh and go on.
// Errors: DataLoss naming the directories without rows and the remedy; PermissionDenied.
absl::Status CheckRowsKept(const std::string& path, const StoredModel& model);

// Names of the dataset's labels; empty when it has none.
std::vector<std::string> LabelNames(const Dataset& data, int64_t num_labels);

}  // namespace dslide::cli
