// What a model knows beside its rows - names, frequencies, vocabulary - as tensors and back.
//
//   names.labels, names.label_offsets       bytes of all names, and [labels + 1] where each begins
//   names.label_counts                      [labels] training points that carry each
//   names.features, names.feature_offsets   the same of features
//   names.idf                               [features] f32
//   names.words, names.word_offsets, names.word_counts   of a text model's vocabulary

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/export/safetensors_input.h"
#include "client/export/tensor_info.h"
#include "core/engine/data/dataset_info.h"
#include "core/engine/data/text/tokenizer.h"
#include "core/engine/data/text_dataset.h"
#include "core/engine/data/transform.h"

namespace dslide {

// Everything may be empty. Data only.
struct ModelTexts {
  FeatureStats features;
  std::vector<std::string> labels;
  LabelCounts label_counts;                      // points = 0: unknown
  std::shared_ptr<const Vocabulary> vocabulary;  // shared with the model that it comes from
  std::string data_kind = "sparse";              // or "text"
  int64_t text_window = 0;
  std::optional<TokenizerOptions> tokenizer;  // that texts are cut with; none: nobody said
};

struct FilledTensor {
  TensorInfo info;
  std::string bytes;
};

std::vector<FilledTensor> TensorsOf(const ModelTexts& texts);
void DescribeTexts(const ModelTexts& texts, TensorMetadata* metadata);

// Errors: DataLoss naming the tensor that is damaged; InvalidArgument when the numbers of names and
// of the model's features and labels differ.
absl::StatusOr<ModelTexts> ReadTexts(const SafetensorsInput& input, int64_t labels);

}  // namespace dslide
