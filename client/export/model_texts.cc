#include "client/export/model_texts.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/engine/data/text/tokenizer_json.h"

namespace dslide {
namespace {

constexpr char kDataKey[] = "dslide.data";
constexpr char kWindowKey[] = "dslide.window";
constexpr char kTokenizerKey[] = "dslide.tokenizer";
constexpr char kPointsKey[] = "dslide.training_points";
constexpr char kTextKind[] = "text";

template <typename T>
std::string ArrayBytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <typename T>
FilledTensor ArrayTensor(const std::string& name, TensorType type, const std::vector<T>& values) {
  return {.info = {.name = name, .type = type, .shape = {static_cast<int64_t>(values.size())}},
          .bytes = ArrayBytes(values)};
}

// Adds "names.<plural>" and "names.<singular>_offsets".
void AddNames(const std::string& singular, const std::vector<std::string>& names,
              std::vector<FilledTensor>* out) {
  FilledTensor all;
  std::vector<int64_t> offsets = {0};
  for (const std::string& name : names) {
    all.bytes += name;
    offsets.push_back(static_cast<int64_t>(all.bytes.size()));
  }
  all.info = {.name = absl::StrCat("names.", singular, "s"),
              .type = TensorType::kU8,
              .shape = {static_cast<int64_t>(all.bytes.size())}};
  out->push_back(std::move(all));
  out->push_back(
      ArrayTensor(absl::StrCat("names.", singular, "_offsets"), TensorType::kI64, offsets));
}

// The numbers of a tensor that may be absent; empty then.
template <typename T>
absl::StatusOr<std::vector<T>> ReadArray(const SafetensorsInput& input, const std::string& name,
                                         TensorType type) {
  const SafetensorsInput::Tensor* const found = input.Find(name);
  if (found == nullptr) return std::vector<T>();
  if (found->info.type != type || found->info.shape.size() != 1) {
    return absl::DataLossError(
        absl::StrCat(input.path(), ": tensor \"", name, "\" has another type or shape"));
  }
  std::vector<T> values(found->bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), found->bytes.data(), found->bytes.size());
  return values;
}

absl::StatusOr<std::vector<std::string>> ReadNames(const SafetensorsInput& input,
                                                   const std::string& singular) {
  const std::string plural = absl::StrCat("names.", singular, "s");
  ASSIGN_OR_RETURN(const std::vector<char> bytes, ReadArray<char>(input, plural, TensorType::kU8));
  ASSIGN_OR_RETURN(
      const std::vector<int64_t> offsets,
      ReadArray<int64_t>(input, absl::StrCat("names.", singular, "_offsets"), TensorType::kI64));
  std::vector<std::string> names;
  const auto total = static_cast<int64_t>(bytes.size());
  bool valid = offsets.empty() ? total == 0 : offsets.front() == 0 && offsets.back() == total;
  for (size_t i = 1; valid && i < offsets.size(); ++i) {
    valid = offsets[i] >= offsets[i - 1] && offsets[i] <= total;
    if (!valid) break;
    const std::string name(bytes.data() + offsets[i - 1], bytes.data() + offsets[i]);
    // The texts of a model directory have one name a line, those of features behind a tab.
    valid = name.find_first_of(singular == "label" ? "\n\r" : "\n\r\t") == std::string::npos;
    names.push_back(name);
  }
  if (valid) return names;
  return absl::DataLossError(absl::StrCat(input.path(), ": tensors \"", plural, "\" and its ",
                                          "offsets do not make names, or one has a tab or a line ",
                                          "end"));
}

absl::Status WrongNumber(const SafetensorsInput& input, absl::string_view what, size_t have,
                         int64_t want) {
  return absl::InvalidArgumentError(
      absl::StrCat(input.path(), ": has ", have, " ", what, ", the model needs ", want));
}

int64_t NumberIn(const TensorMetadata& metadata, const std::string& key) {
  int64_t number = 0;
  const auto found = metadata.find(key);
  if (found == metadata.end() || !absl::SimpleAtoi(found->second, &number)) return 0;
  return number;
}

absl::Status ReadVocabulary(const SafetensorsInput& input, ModelTexts* texts) {
  ASSIGN_OR_RETURN(const std::vector<std::string> words, ReadNames(input, "word"));
  ASSIGN_OR_RETURN(const std::vector<int64_t> counts,
                   ReadArray<int64_t>(input, "names.word_counts", TensorType::kI64));
  if (words.empty() || words.size() != counts.size()) {
    return WrongNumber(input, "counts of words", counts.size(), static_cast<int64_t>(words.size()));
  }
  std::vector<Vocabulary::Word> list;
  for (size_t i = 0; i < words.size(); ++i) list.push_back({words[i], counts[i]});
  // Shared with the datasets that it reads.
  texts->vocabulary = std::make_shared<const Vocabulary>(std::move(list));
  return absl::OkStatus();
}

}  // namespace

std::vector<FilledTensor> TensorsOf(const ModelTexts& texts) {
  std::vector<FilledTensor> tensors;
  const bool named = !texts.features.names.empty() && !texts.features.names.front().empty();
  if (!texts.labels.empty()) AddNames("label", texts.labels, &tensors);
  if (texts.label_counts.points > 0) {
    tensors.push_back(
        ArrayTensor("names.label_counts", TensorType::kI64, texts.label_counts.of_label));
  }
  if (named) AddNames("feature", texts.features.names, &tensors);
  if (!texts.features.idf.empty()) {
    tensors.push_back(ArrayTensor("names.idf", TensorType::kF32, texts.features.idf));
  }
  if (texts.vocabulary != nullptr) {
    std::vector<std::string> words;
    std::vector<int64_t> counts;
    for (int64_t i = 0; i < texts.vocabulary->size(); ++i) {
      words.push_back(texts.vocabulary->word(i).text);
      counts.push_back(texts.vocabulary->word(i).count);
    }
    AddNames("word", words, &tensors);
    tensors.push_back(ArrayTensor("names.word_counts", TensorType::kI64, counts));
  }
  return tensors;
}

void DescribeTexts(const ModelTexts& texts, TensorMetadata* metadata) {
  (*metadata)[kDataKey] = texts.data_kind;
  if (texts.data_kind == kTextKind) (*metadata)[kWindowKey] = absl::StrCat(texts.text_window);
  if (texts.tokenizer.has_value()) {
    (*metadata)[kTokenizerKey] = TokenizerToJson(*texts.tokenizer);
  }
  if (texts.label_counts.points > 0) {
    (*metadata)[kPointsKey] = absl::StrCat(texts.label_counts.points);
  }
}

absl::StatusOr<ModelTexts> ReadTexts(const SafetensorsInput& input, int64_t labels) {
  ModelTexts texts;
  const auto kind = input.metadata().find(kDataKey);
  if (kind != input.metadata().end()) texts.data_kind = kind->second;
  texts.text_window = NumberIn(input.metadata(), kWindowKey);
  if (const auto json = input.metadata().find(kTokenizerKey); json != input.metadata().end()) {
    ASSIGN_OR_RETURN(texts.tokenizer, TokenizerFromJson(json->second, input.path()));
  }
  texts.label_counts.points = NumberIn(input.metadata(), kPointsKey);
  ASSIGN_OR_RETURN(texts.labels, ReadNames(input, "label"));
  if (!texts.labels.empty() && static_cast<int64_t>(texts.labels.size()) != labels) {
    return WrongNumber(input, "names of labels", texts.labels.size(), labels);
  }
  ASSIGN_OR_RETURN(texts.label_counts.of_label,
                   ReadArray<int64_t>(input, "names.label_counts", TensorType::kI64));
  if (texts.label_counts.points > 0 &&
      static_cast<int64_t>(texts.label_counts.of_label.size()) != labels) {
    return WrongNumber(input, "counts of labels", texts.label_counts.of_label.size(), labels);
  }
  ASSIGN_OR_RETURN(texts.features.idf, ReadArray<float>(input, "names.idf", TensorType::kF32));
  for (const float idf : texts.features.idf) {
    if (std::isfinite(idf)) continue;
    return absl::DataLossError(
        absl::StrCat(input.path(), ": tensor \"names.idf\" has a number that is not finite"));
  }
  ASSIGN_OR_RETURN(texts.features.names, ReadNames(input, "feature"));
  if (texts.features.names.empty()) texts.features.names.resize(texts.features.idf.size());
  if (texts.features.names.size() != texts.features.idf.size()) {
    return WrongNumber(input, "names of features", texts.features.names.size(),
                       static_cast<int64_t>(texts.features.idf.size()));
  }
  if (texts.data_kind == kTextKind) RETURN_IF_ERROR(ReadVocabulary(input, &texts));
  return texts;
}

}  // namespace dslide
