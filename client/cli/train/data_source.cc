#include "client/cli/train/data_source.h"

#include <algorithm>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/console/global_options.h"
#include "client/cli/console/terminal.h"
#include "client/cli/source/remote_data.h"
#include "client/components/component_spec.h"
#include "core/base/status_macros.h"
#include "core/base/version.h"
#include "core/engine/data/dataset_info.h"
#include "core/engine/data/dataset_subset.h"
#include "core/engine/data/sparse_dataset.h"
#include "core/engine/data/text/tokenizer_json.h"
#include "core/spec/retired_labels.h"
#include "core/spec/table_rows.h"

namespace dslide::cli {

namespace {

// Once each: the same file of names lies beside training and test data.
void PrintNotes(const Dataset& data, const LocalData& local) {
  static std::set<std::string> printed;
  for (const std::string& note : data.Notes()) {
    if (printed.insert(note).second) PrintNote(ShownAs(local, absl::StrCat("note: ", note)));
  }
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenText(const LocalData& local,
                                                  const DataOptions& options,
                                                  std::shared_ptr<const Vocabulary> vocabulary,
                                                  Parallelism parallelism) {
  TextDatasetOptions text;
  text.parallelism = parallelism;
  text.window = options.window;
  text.min_count = options.min_count;
  text.max_vocabulary = options.max_vocabulary;
  text.vocabulary = std::move(vocabulary);
  absl::StatusOr<std::unique_ptr<TextDataset>> data = TextDataset::Open(local.path, text);
  if (!data.ok()) return ShownAs(local, data.status());
  return std::unique_ptr<Dataset>(*std::move(data));
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenSparse(const LocalData& local,
                                                    Parallelism parallelism) {
  SparseDatasetOptions sparse;
  sparse.parallelism = parallelism;
  sparse.count_document_frequency = true;
  sparse.shown_path = local.shown;
  absl::StatusOr<std::unique_ptr<SparseDataset>> data = SparseDataset::Open(local.path, sparse);
  if (absl::IsInvalidArgument(data.status()) && ImportFormatOf(local.path).has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat(ShownAs(local, data.status()).message(),
                     "; make a data set of it first: dslide data import"));
  }
  if (!data.ok()) return ShownAs(local, data.status());
  PrintNotes(**data, local);
  return std::unique_ptr<Dataset>(*std::move(data));
}

absl::StatusOr<LocalData> FetchPoints(const std::string& data, const DataOptions& options) {
  return FetchData(data, options.text ? NamesBeside() : NamesOfSparseData());
}

absl::StatusOr<std::unique_ptr<ServedDataset>> OpenServed(const std::string& url,
                                                          const DataOptions& options) {
  if (options.text) {
    return absl::InvalidArgumentError(
        absl::StrCat("--text: ", url, " has points, no text; give a file"));
  }
  return ServedDataset::Open(url, options.served);
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenLocal(const LocalData& local,
                                                   const DataOptions& options,
                                                   std::shared_ptr<const Vocabulary> vocabulary,
                                                   Parallelism parallelism) {
  if (options.text) return OpenText(local, options, std::move(vocabulary), parallelism);
  return OpenSparse(local, parallelism);
}

}  // namespace

void AddDataOptions(CliCommand app, DataOptions& options) {
  app.AddSwitch("--text", options.text,
                "The data is plain text: learn from a word the words around it");
  AddOption(app, "--window", options.window, "With --text: words on each side that are labels");
  AddOption(app, "--min-count", options.min_count, "With --text: rarer words are dropped");
  AddOption(app, "--max-vocabulary", options.max_vocabulary, "With --text: words kept at most");
}

void AddImportedDataOptions(CliCommand app, DataOptions& options) {
  AddSourceOptions(app, "--text-column", "--label-column", options.import);
  AddVocabularyOptions(app, options.import);
}

absl::StatusOr<ImportedData> OpenTrainingData(const std::string& data, const std::string& eval,
                                              const DataOptions& options, Parallelism parallelism,
                                              bool quiet) {
  if (ImportFormatOf(data).has_value() && !options.text) {
    return OpenImported(data, eval, options.import, parallelism, quiet);
  }
  ImportedData opened;
  if (IsServedData(data)) {
    ASSIGN_OR_RETURN(std::unique_ptr<ServedDataset> served, OpenServed(data, options));
    if (!served->tokenizer().empty()) {
      ASSIGN_OR_RETURN(opened.tokenizer, TokenizerFromJson(served->tokenizer(), data));
    }
    opened.data = std::move(served);
  } else {
    ASSIGN_OR_RETURN(const LocalData local, FetchPoints(data, options));
    ASSIGN_OR_RETURN(opened.data, OpenLocal(local, options, nullptr, parallelism));
    // One beside data whose features have no names is of other data.
    if (!opened.data->FeatureName(0).empty() && !options.text) {
      ASSIGN_OR_RETURN(opened.tokenizer, FindTokenizer(local.path));
    }
  }
  if (eval.empty()) return opened;
  ASSIGN_OR_RETURN(opened.eval, OpenData(eval, options, VocabularyOf(*opened.data), parallelism));
  RETURN_IF_ERROR(CheckSameShape(*opened.data, *opened.eval));
  return opened;
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenData(const std::string& path,
                                                  const DataOptions& options,
                                                  std::shared_ptr<const Vocabulary> vocabulary,
                                                  Parallelism parallelism) {
  if (IsServedData(path)) {
    ASSIGN_OR_RETURN(std::unique_ptr<ServedDataset> served, OpenServed(path, options));
    return std::unique_ptr<Dataset>(std::move(served));
  }
  ASSIGN_OR_RETURN(const LocalData local, FetchPoints(path, options));
  return OpenLocal(local, options, std::move(vocabulary), parallelism);
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenDataFor(const StoredModel& model,
                                                     const std::string& path,
                                                     const ImportFlags& import,
                                                     const ServedDataOptions& served,
                                                     Parallelism parallelism) {
  if (ImportFormatOf(path).has_value() && model.vocabulary == nullptr) {
    return OpenImportedFor(model, path, import, parallelism);
  }
  DataOptions options;
  options.served = served;
  options.text = model.origin.data_kind == "text";
  if (model.origin.text_window > 0) options.window = model.origin.text_window;
  ASSIGN_OR_RETURN(std::unique_ptr<Dataset> data,
                   OpenData(path, options, model.vocabulary, parallelism));
  // A cluster may have no names and weights of features, but its embedding has a row for each.
  const TableSpec* const embedding = model.spec.FindRole(TableRole::kEmbedding);
  const int64_t features = !model.features.idf.empty()
                               ? static_cast<int64_t>(model.features.idf.size())
                           : embedding != nullptr ? NumFeatures(*embedding)
                                                  : data->num_features();  // nothing says
  const int64_t labels = model.spec.num_labels();
  // A table with room, or that has grown, takes all data that it has taken before.
  const TableSpec* const head = model.spec.FindRole(TableRole::kHead);
  const TableSpec* const memory = model.spec.FindRole(TableRole::kMemory);
  const int64_t base_labels = head != nullptr     ? BaseRows(*head)
                              : memory != nullptr ? BaseLabels(memory->memory)
                                                  : labels;
  // Nothing says which features a memory had when it was made; one that has grown may have had
  // fewer.
  const bool has_grown = memory != nullptr && (base_labels < labels || memory->base_rows > 0);
  const int64_t base_features = embedding != nullptr ? BaseFeatures(*embedding)
                                : has_grown          ? 0
                                                     : features;
  const int64_t most_features = embedding != nullptr ? NumFeatures(*embedding) : features;
  const bool other_features =
      data->num_features() > most_features || data->num_features() < base_features;
  const bool other_labels = data->num_labels() > labels || data->num_labels() < base_labels;
  if (other_features || other_labels) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " has ", data->num_features(), " features and ", data->num_labels(),
                     " labels, the model has ", features, " and ", labels, ": it is other data"));
  }
  return data;
}

std::unique_ptr<Dataset> WithoutRetiredLabels(std::unique_ptr<Dataset> data,
                                              const ModelSpec& spec) {
  if (data == nullptr || spec.retired_labels.empty()) return data;
  // ModelSpec::Validate() has parsed it.
  RetiredLabels retired = RetiredLabels::Parse(spec.retired_labels).value_or(RetiredLabels());
  return std::make_unique<DatasetWithoutLabels>(
      std::move(data), [retired = std::move(retired)](RowId label) {
        return retired.Contains(static_cast<int64_t>(label.value()));
      });
}

absl::Status LeaveOutRetiredLabels(const ModelSpec& spec, std::unique_ptr<Dataset>& data,
                                   std::unique_ptr<Dataset>& eval) {
  if (spec.retired_labels.empty()) return absl::OkStatus();
  if (!HasComponents(spec)) data = WithoutRetiredLabels(std::move(data), spec);
  eval = WithoutRetiredLabels(std::move(eval), spec);
  RETURN_IF_ERROR(CheckHasLabels(*data));
  return eval == nullptr ? absl::OkStatus() : CheckHasLabels(*eval);
}

std::shared_ptr<const Vocabulary> VocabularyOf(const Dataset& data) {
  const auto* text = dynamic_cast<const TextDataset*>(&data);
  return text == nullptr ? nullptr : text->vocabulary();
}

Parallelism ThreadsOrAll(int64_t threads) {
  const auto all = static_cast<int64_t>(std::max(1u, std::thread::hardware_concurrency()));
  return Parallelism{static_cast<int>(threads > 0 ? std::min<int64_t>(threads, 1024) : all)};
}

ModelOrigin OriginOf(const DataOptions& source, int64_t shards, uint64_t seed) {
  ModelOrigin origin;
  origin.shards = shards;
  origin.seed = seed;
  origin.version = Version();
  origin.revision = Revision();
  origin.data_kind = source.text ? "text" : "sparse";
  origin.text_window = source.window;
  return origin;
}

}  // namespace dslide::cli
