#include "client/cli/model/text_assets.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/engine/data/name_list.h"
#include "core/engine/data/parse_error.h"
#include "core/engine/data/text/tokenizer_json.h"
#include "core/protocol/coordinator_reason_words.h"
#include "core/spec/table_rows.h"

namespace dslide::cli {
namespace {

constexpr char kFeatures[] = "features.tsv";
constexpr char kLabels[] = "labels.txt";
constexpr char kVocabulary[] = "vocabulary.tsv";
constexpr char kData[] = "data.json";
constexpr char kTextKind[] = "text";
constexpr int kDataFormat = 1;
constexpr int kMostAttempts = 5;  // to be the next who gives texts

std::string DataToJson(const ModelOrigin& origin) {
  nlohmann::ordered_json json = {{"format", kDataFormat}, {"data", origin.data_kind}};
  if (origin.data_kind == kTextKind) json["window"] = origin.text_window;
  return json.dump() + "\n";
}

absl::Status ReadDataKind(const std::string& text, const std::string& path, ModelOrigin* origin) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const bool valid = json.is_object() && json.contains("format") && json.contains("data") &&
                     json["format"].is_number_integer() && json["data"].is_string();
  if (!valid) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected an object with \"format\" and \"data\""));
  }
  if (json["format"] != kDataFormat) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " has format ", json["format"].dump(), ", this version reads format ",
                     kDataFormat, ": use the version that wrote it or a later one"));
  }
  origin->data_kind = json["data"].get<std::string>();
  if (json.contains("window") && json["window"].is_number_integer()) {
    origin->text_window = json["window"].get<int64_t>();
  }
  return absl::OkStatus();
}

// Features that the model has; -1: nothing says.
int64_t FeaturesOf(const ModelSpec& spec) {
  const TableSpec* const embedding = spec.FindRole(TableRole::kEmbedding);
  return embedding == nullptr ? -1 : NumFeatures(*embedding);
}

// Texts of as many features and labels as the model has rows for.
void FillRows(StoredModel* model) {
  if (const int64_t rows = FeaturesOf(model->spec); rows >= 0 && !model->features.idf.empty()) {
    model->features.idf.resize(static_cast<size_t>(rows), 0.0f);
    model->features.names.resize(static_cast<size_t>(rows));
  }
  const auto labels = static_cast<size_t>(model->spec.num_labels());
  if (!model->labels.empty()) model->labels.resize(labels);
  if (model->label_counts.points > 0) model->label_counts.of_label.resize(labels);
}

absl::Status TooMany(const std::string& path, size_t have, int64_t most) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, " has ", have, " lines, the model has ", most, " rows for them"));
}

class AssetDecoder {
 public:
  AssetDecoder(const AssetFiles& files, std::string origin)
      : files_(files), origin_(std::move(origin)) {}

  absl::Status Decode(StoredModel* model) const;

 private:
  // Null: there is none.
  const std::string* Find(const std::string& name) const {
    const auto found = files_.find(name);
    return found == files_.end() ? nullptr : &found->second;
  }
  absl::Status DecodeNames(StoredModel* model) const;
  std::string Path(absl::string_view name) const { return absl::StrCat(origin_, name); }

  const AssetFiles& files_;
  const std::string origin_;
};

absl::Status AssetDecoder::DecodeNames(StoredModel* model) const {
  if (const std::string* const text = Find(kFeatures); text != nullptr) {
    ASSIGN_OR_RETURN(model->features, FeatureStats::FromText(*text, Path(kFeatures)));
    const int64_t rows = FeaturesOf(model->spec);
    const size_t named = model->features.idf.size();
    if (rows >= 0 && static_cast<int64_t>(named) > rows) {
      return TooMany(Path(kFeatures), named, rows);
    }
  }
  const std::string* const text = Find(kLabels);
  if (text == nullptr) return absl::OkStatus();
  LineReader reader(*text);
  absl::string_view line;
  while (reader.Next(&line)) model->labels.emplace_back(line);
  const int64_t rows = model->spec.num_labels();
  if (static_cast<int64_t>(model->labels.size()) > rows) {
    return TooMany(Path(kLabels), model->labels.size(), rows);
  }
  return absl::OkStatus();
}

absl::Status AssetDecoder::Decode(StoredModel* model) const {
  if (const std::string* const text = Find(kData); text != nullptr) {
    RETURN_IF_ERROR(ReadDataKind(*text, Path(kData), &model->origin));
  }
  RETURN_IF_ERROR(DecodeNames(model));
  if (const std::string* const text = Find(kLabelCounts); text != nullptr) {
    ASSIGN_OR_RETURN(model->label_counts, ParseLabelCounts(*text, Path(kLabelCounts)));
    const int64_t rows = model->spec.num_labels();
    const size_t counted = model->label_counts.of_label.size();
    if (static_cast<int64_t>(counted) > rows) return TooMany(Path(kLabelCounts), counted, rows);
  }
  if (const std::string* const text = Find(kVocabulary); text != nullptr) {
    ASSIGN_OR_RETURN(model->vocabulary, Vocabulary::FromText(*text, Path(kVocabulary)));
  }
  if (const std::string* const text = Find(kTokenizerFile); text != nullptr) {
    ASSIGN_OR_RETURN(model->tokenizer, TokenizerFromJson(*text, Path(kTokenizerFile)));
  }
  FillRows(model);
  return absl::OkStatus();
}

absl::StatusOr<AssetFiles> AssetsOf(const StoredModel& model) {
  ASSIGN_OR_RETURN(AssetFiles files, EncodeTexts(model));
  files[kData] = DataToJson(model.origin);
  return files;
}

bool AnyNamed(const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(),
                     [](const std::string& name) { return !name.empty(); });
}

// "label 3 is "a" there, "b" here"; "" when they are equal, or one side has no names.
// any_number: of two lengths the shorter one counts.
std::string NamesDiffer(absl::string_view what, const std::vector<std::string>& there,
                        const std::vector<std::string>& here, bool any_number = false) {
  if (!AnyNamed(there) || !AnyNamed(here)) return "";
  if (there.size() != here.size() && !any_number) {
    return absl::StrCat(there.size(), " ", what, "s there, ", here.size(), " here");
  }
  for (size_t i = 0; i < std::min(there.size(), here.size()); ++i) {
    // A row without a name is one that the model has grown by.
    if (there[i] == here[i] || there[i].empty() || here[i].empty()) continue;
    return absl::StrCat(what, " ", i, " is ", QuoteFound(there[i]), " there, ", QuoteFound(here[i]),
                        " here");
  }
  return "";
}

std::vector<std::string> WordsOf(const std::shared_ptr<const Vocabulary>& vocabulary) {
  std::vector<std::string> words;
  for (int64_t i = 0; vocabulary != nullptr && i < vocabulary->size(); ++i) {
    words.push_back(vocabulary->word(i).text);
  }
  return words;
}

// What rows were learnt under: everything but numbers that were counted.
std::string FilledTextsDiffer(const StoredModel& there, const StoredModel& here) {
  if (there.origin.data_kind != here.origin.data_kind) {
    return absl::StrCat("the data is ", there.origin.data_kind, " there, ", here.origin.data_kind,
                        " here");
  }
  // A memory takes any feature: more of them are news, and fewer are told by their names.
  const bool any_number = FeaturesOf(here.spec) < 0;
  const bool fits = there.features.idf.size() < here.features.idf.size() ||
                    (AnyNamed(there.features.names) && AnyNamed(here.features.names));
  if (there.features.idf.size() != here.features.idf.size() && !(any_number && fits)) {
    return absl::StrCat(there.features.idf.size(), " features there, ", here.features.idf.size(),
                        " here");
  }
  if (there.tokenizer.has_value() && here.tokenizer.has_value()) {
    const std::string a = TokenizerToJson(*there.tokenizer);
    const std::string b = TokenizerToJson(*here.tokenizer);
    if (a != b) return absl::StrCat("the tokenizer is ", a, " there, ", b, " here");
  }
  std::string names = NamesDiffer("label", there.labels, here.labels);
  if (names.empty()) {
    names = NamesDiffer("feature", there.features.names, here.features.names, any_number);
  }
  if (names.empty()) {
    names = NamesDiffer("word", WordsOf(there.vocabulary), WordsOf(here.vocabulary));
  }
  return names;
}

// Gives rows that have no text there those of here, as a model that has grown has them. False when
// there are none.
bool NameNewRows(const StoredModel& here, StoredModel* there) {
  bool found = false;
  const auto take_where = [&found](const auto& from, auto& to, auto is_new) {
    for (size_t i = 0; i < std::min(from.size(), to.size()); ++i) {
      if (!is_new(i) || from[i] == to[i]) continue;
      to[i] = from[i];
      found = true;
    }
  };
  const auto take = [&](const auto& from, auto& to) {
    take_where(from, to, [&](size_t i) { return to[i] == std::decay_t<decltype(to[i])>(); });
  };
  FeatureStats& features = there->features;
  if (FeaturesOf(here.spec) < 0 && features.idf.size() < here.features.idf.size()) {
    features.idf.resize(here.features.idf.size(), 0.0f);
    features.names.resize(here.features.idf.size());
  }
  if (AnyNamed(there->labels)) take(here.labels, there->labels);
  // A weight of 0 stands where a feature has a name: every point had it.
  const bool named = AnyNamed(features.names);
  take_where(here.features.idf, features.idf, [&](size_t i) {
    return features.idf[i] == 0.0f && (!named || features.names[i].empty());
  });
  if (named) take(here.features.names, features.names);
  if (there->label_counts.points > 0) {
    take(here.label_counts.of_label, there->label_counts.of_label);
  }
  return found;
}

// What is known there stands.
void Adopt(StoredModel there, StoredModel* here) {
  if (!AnyNamed(there.features.names)) there.features.names = std::move(here->features.names);
  here->features = std::move(there.features);
  if (AnyNamed(there.labels)) here->labels = std::move(there.labels);
  if (there.label_counts.points > 0) here->label_counts = std::move(there.label_counts);
  if (there.tokenizer.has_value()) here->tokenizer = there.tokenizer;
}

struct SharedTexts {
  StoredModel model = {};
  uint32_t checksum = 0;  // of the set
};

absl::StatusOr<std::optional<SharedTexts>> Fetch(CoordinatorClient& coordinator,
                                                 const ModelSpec& spec) {
  const absl::StatusOr<FileList> list = coordinator.ListModelAssets(spec.name);
  // A coordinator of an earlier version has none.
  if (absl::IsUnimplemented(list.status())) return std::nullopt;
  RETURN_IF_ERROR(list.status());
  if (list->files.empty()) return std::nullopt;
  ASSIGN_OR_RETURN(const AssetFiles files, ReadAssets(coordinator, spec.name, *list));
  SharedTexts texts{.checksum = list->checksum};
  texts.model.spec = spec;
  RETURN_IF_ERROR(AssetDecoder(files, absl::StrCat("model \"", spec.name, "\" of the cluster: "))
                      .Decode(&texts.model));
  return texts;
}

absl::Status Refuse(CoordinatorClient& coordinator, const StoredModel& here,
                    const std::string& difference) {
  ASSIGN_OR_RETURN(const AssetFiles files, AssetsOf(here));
  ASSIGN_OR_RETURN(const FileList there, coordinator.ListModelAssets(here.spec.name));
  return StatusWithReason(
      absl::StatusCode::kFailedPrecondition, reason::kAssetsDiffer,
      absl::StrCat(
          "model \"", here.spec.name, "\" of the cluster learns from other data: ", difference,
          " (assets ", AssetChecksum(there.checksum), " there, ",
          AssetChecksum(ListOfAssets(files).checksum),
          " here): train with the data that it was made of, give another --name, or delete "
          "it first (dslide model delete ",
          here.spec.name, ")"));
}

absl::Status Give(CoordinatorClient& coordinator, const StoredModel& model,
                  std::optional<uint32_t> replaces) {
  ASSIGN_OR_RETURN(const AssetFiles files, AssetsOf(model));
  const absl::Status given = PutAssets(coordinator, model.spec.name, files, replaces);
  return absl::IsUnimplemented(given) ? absl::OkStatus() : given;
}

// False when another trainer gave texts meanwhile.
absl::StatusOr<bool> TryToShare(CoordinatorClient& coordinator, StoredModel* model) {
  absl::StatusOr<std::optional<SharedTexts>> there = Fetch(coordinator, model->spec);
  std::optional<uint32_t> replaces;
  if (absl::IsDataLoss(there.status())) {  // what is equal is put in its place
    RETURN_IF_ERROR(Give(coordinator, *model, replaces));
    return true;
  }
  RETURN_IF_ERROR(there.status());
  if (there->has_value()) {
    SharedTexts& texts = **there;
    const std::string difference = FilledTextsDiffer(texts.model, *model);
    if (!difference.empty()) return Refuse(coordinator, *model, difference);
    replaces = texts.checksum;
    const bool grown = NameNewRows(*model, &texts.model);
    Adopt(std::move(texts.model), model);
    if (!grown) return true;
  }
  const absl::Status given = Give(coordinator, *model, replaces);
  if (ReasonOf(given) == reason::kAssetsDiffer) return false;
  RETURN_IF_ERROR(given);
  return true;
}

}  // namespace

absl::StatusOr<LabelCounts> ParseLabelCounts(absl::string_view text, const std::string& path) {
  LineReader reader(text);
  LabelCounts counts;
  absl::string_view line;
  while (reader.Next(&line)) {
    const bool first = reader.line_number() == 1;
    int64_t number = 0;
    if (!absl::SimpleAtoi(line, &number) || number < (first ? 1 : 0)) {
      return ParseError(path, reader.line_number(), {1, QuoteFound(line), "a number of points"});
    }
    if (first) {
      counts.points = number;
    } else {
      counts.of_label.push_back(number);
    }
  }
  return counts;
}

absl::StatusOr<AssetFiles> EncodeTexts(const StoredModel& model) {
  AssetFiles files;
  ASSIGN_OR_RETURN(files[kFeatures], model.features.ToText(kFeatures));
  if (!model.labels.empty()) {
    std::string& text = files[kLabels];
    for (const std::string& label : model.labels) absl::StrAppend(&text, label, "\n");
  }
  if (model.label_counts.points > 0) {
    std::string& text = files[kLabelCounts];
    absl::StrAppend(&text, model.label_counts.points, "\n");
    for (const int64_t count : model.label_counts.of_label) absl::StrAppend(&text, count, "\n");
  }
  if (model.vocabulary != nullptr) files[kVocabulary] = model.vocabulary->ToText();
  if (model.tokenizer.has_value()) files[kTokenizerFile] = TokenizerToJson(*model.tokenizer);
  return files;
}

absl::StatusOr<bool> FetchTexts(CoordinatorClient& coordinator, StoredModel* model) {
  ASSIGN_OR_RETURN(std::optional<SharedTexts> there, Fetch(coordinator, model->spec));
  if (!there.has_value()) return false;
  *model = std::move(there->model);
  return true;
}

std::string TextsDiffer(StoredModel there, StoredModel here) {
  there.spec = here.spec;
  FillRows(&there);
  FillRows(&here);
  return FilledTextsDiffer(there, here);
}

absl::Status GiveTexts(CoordinatorClient& coordinator, const StoredModel& model) {
  return Give(coordinator, model, std::nullopt);
}

absl::Status CheckTexts(CoordinatorClient& coordinator, const StoredModel& model) {
  ASSIGN_OR_RETURN(const std::vector<ModelSpec> models, coordinator.ListModels());
  const bool known = std::any_of(models.begin(), models.end(), [&](const ModelSpec& other) {
    return other.name == model.spec.name;
  });
  if (!known) return absl::OkStatus();
  // As they will be with the rows of `model`.
  absl::StatusOr<std::optional<SharedTexts>> there = Fetch(coordinator, model.spec);
  if (absl::IsDataLoss(there.status())) return absl::OkStatus();  // ShareTexts() mends it
  RETURN_IF_ERROR(there.status());
  if (!there->has_value()) return absl::OkStatus();
  const std::string difference = TextsDiffer((*there)->model, model);
  return difference.empty() ? absl::OkStatus() : Refuse(coordinator, model, difference);
}

absl::Status ShareTexts(CoordinatorClient& coordinator, StoredModel* model) {
  // What is shared is of all rows that the model has there, which may be more than are known here.
  ASSIGN_OR_RETURN(const std::vector<ModelSpec> models, coordinator.ListModels());
  const ModelSpec own = model->spec;
  for (const ModelSpec& known : models) {
    if (known.name == own.name) model->spec = known;
  }
  FillRows(model);
  bool shared = false;
  for (int attempt = 0; attempt < kMostAttempts && !shared; ++attempt) {
    ASSIGN_OR_RETURN(shared, TryToShare(coordinator, model));
  }
  if (!shared) {
    return absl::UnavailableError(
        absl::StrCat("the assets of model \"", own.name, "\" are changed by others all the time"));
  }
  model->spec = own;
  FillRows(model);
  return absl::OkStatus();
}

}  // namespace dslide::cli
