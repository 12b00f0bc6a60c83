#include "client/trainer/batch_preparer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/counter_rng.h"
#include "core/base/status_macros.h"
#include "core/spec/table_rows.h"

namespace dslide {
namespace {

constexpr uint64_t kInputDropoutStream = 0x696e64;

}  // namespace

ValueTransform ToValueTransform(InputTransform transform) {
  switch (transform) {
    case InputTransform::kRaw:
      return ValueTransform::kRaw;
    case InputTransform::kL2:
      return ValueTransform::kL2;
    case InputTransform::kTfIdf:
      return ValueTransform::kTfIdf;
  }
  return ValueTransform::kRaw;
}

absl::StatusOr<std::unique_ptr<BatchPreparer>> BatchPreparer::Create(const Network& network,
                                                                     SlotMap embedding_slots,
                                                                     SlotMap head_slots,
                                                                     BatchPreparerOptions options) {
  const auto weighed = static_cast<int64_t>(options.idf.size());
  const bool tf_idf = network.spec().training.transform == InputTransform::kTfIdf;
  if (tf_idf && (weighed > network.num_features() || weighed < BaseFeatures(network.embedding()))) {
    return absl::InvalidArgumentError(
        absl::StrCat("model \"", network.spec().name, "\" weighs its ", network.num_features(),
                     " features by tf-idf, but ", options.idf.size(), " weights are known"));
  }
  if (!options.label_weights.empty() &&
      static_cast<int64_t>(options.label_weights.size()) != network.num_labels()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model \"", network.spec().name, "\" has ", network.num_labels(), " labels, but ",
        options.label_weights.size(), " weights of labels are known"));
  }
  // A feature that nobody has counted is at least as rare as the rarest that was.
  if (tf_idf && weighed > 0) {
    options.idf.resize(static_cast<size_t>(network.num_features()),
                       *std::max_element(options.idf.begin(), options.idf.end()));
  }
  return std::unique_ptr<BatchPreparer>(new BatchPreparer(
      network, std::move(embedding_slots), std::move(head_slots), std::move(options)));
}

absl::StatusOr<std::unique_ptr<BatchPreparer>> BatchPreparer::Open(ClusterClient& cluster,
                                                                   const Network& network,
                                                                   BatchPreparerOptions options) {
  ASSIGN_OR_RETURN(SlotMap embedding_slots, cluster.Slots(network.embedding().num_slots));
  ASSIGN_OR_RETURN(SlotMap head_slots, cluster.Slots(network.head().num_slots));
  return Create(network, std::move(embedding_slots), std::move(head_slots), std::move(options));
}

BatchPreparer::BatchPreparer(const Network& network, SlotMap embedding_slots, SlotMap head_slots,
                             BatchPreparerOptions options)
    : network_(network),
      embedding_slots_(std::move(embedding_slots)),
      head_slots_(std::move(head_slots)),
      options_(std::move(options)) {}

absl::StatusOr<PreparedBatch> BatchPreparer::Prepare(const Dataset& data, BatchUse use,
                                                     int64_t epoch,
                                                     absl::Span<const int64_t> points) const {
  SparseBatch samples;
  RETURN_IF_ERROR(data.ReadSamples(points, &samples));
  return PrepareSamples(std::move(samples), use, epoch, points);
}

absl::Status BatchPreparer::CheckIds(const SparseBatch& samples,
                                     absl::Span<const int64_t> points) const {
  for (int64_t s = 0; s < samples.samples(); ++s) {
    const absl::Span<const RowId> features = samples.FeaturesOf(s);
    const absl::Span<const RowId> labels = samples.LabelsOf(s);
    // Ids ascend within a sample: the last is the largest.
    if (!features.empty() && int64_t{features.back().value()} >= network_.num_features()) {
      return absl::InvalidArgumentError(absl::StrCat("point ", points[static_cast<size_t>(s)],
                                                     " has feature ", features.back().value(),
                                                     ", the model has ", network_.num_features()));
    }
    if (!labels.empty() && int64_t{labels.back().value()} >= network_.num_labels()) {
      return absl::InvalidArgumentError(absl::StrCat("point ", points[static_cast<size_t>(s)],
                                                     " has label ", labels.back().value(),
                                                     ", the model has ", network_.num_labels()));
    }
  }
  return absl::OkStatus();
}

void BatchPreparer::AppendInputs(const SparseBatch& samples, size_t sample, BatchUse use,
                                 int64_t epoch, int64_t point, std::vector<RowId>& rows,
                                 std::vector<float>& values) const {
  const size_t first = rows.size();
  const absl::Span<const RowId> features = samples.FeaturesOf(static_cast<int64_t>(sample));
  const absl::Span<const float> weights = samples.ValuesOf(static_cast<int64_t>(sample));
  const auto p = static_cast<float>(network_.spec().training.input_dropout);
  if (use == BatchUse::kTraining && p > 0) {
    const float scale = 1.0f / (1.0f - p);
    CounterRng rng(DeriveKey(
        DeriveKey(DeriveKey(options_.seed, kInputDropoutStream), static_cast<uint64_t>(epoch)),
        static_cast<uint64_t>(point)));
    for (size_t i = 0; i < features.size(); ++i) {
      if (rng.NextUniform() < p) continue;
      rows.push_back(features[i]);
      values.push_back(weights[i] * scale);
    }
  } else {
    rows.insert(rows.end(), features.begin(), features.end());
    values.insert(values.end(), weights.begin(), weights.end());
  }
  AddBias(first, rows, values);
}

void BatchPreparer::AddBias(size_t first, std::vector<RowId>& rows,
                            std::vector<float>& values) const {
  if (!network_.embedding().bias_row) return;
  const RowId bias(static_cast<uint32_t>(BiasRow(network_.embedding())));
  const auto place = std::lower_bound(rows.begin() + static_cast<int64_t>(first), rows.end(), bias);
  for (auto behind = place; behind != rows.end(); ++behind) *behind = RowId(behind->value() + 1);
  values.insert(values.begin() + (place - rows.begin()), 1.0f);
  rows.insert(place, bias);
}

absl::StatusOr<PreparedBatch> BatchPreparer::PrepareSamples(
    SparseBatch samples, BatchUse use, int64_t epoch, absl::Span<const int64_t> points) const {
  RETURN_IF_ERROR(CheckIds(samples, points));
  const bool weighs = use == BatchUse::kTraining && weighs_labels();
  if (weighs && options_.label_weights.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("model \"", network_.spec().name,
                     "\" trains with propensities, but the weights of its labels are not known"));
  }
  RETURN_IF_ERROR(
      ApplyTransform(ToValueTransform(network_.spec().training.transform), options_.idf, &samples));
  PreparedBatch batch;
  batch.epoch = epoch;
  std::vector<int64_t> input_offsets = {0};
  std::vector<RowId> rows;
  std::vector<float> values;
  std::vector<int64_t> label_offsets = {0};
  std::vector<RowId> labels;
  std::vector<float> label_weights;
  const bool softmax = network_.head().head.loss == HeadLoss::kSoftmax;
  for (size_t s = 0; s < points.size(); ++s) {
    const absl::Span<const RowId> mine = samples.LabelsOf(static_cast<int64_t>(s));
    if (use == BatchUse::kTraining && mine.empty()) continue;
    AppendInputs(samples, s, use, epoch, points[s], rows, values);
    input_offsets.push_back(static_cast<int64_t>(rows.size()));
    labels.insert(labels.end(), mine.begin(), mine.end());
    label_offsets.push_back(static_cast<int64_t>(labels.size()));
    for (size_t i = 0; weighs && i < mine.size(); ++i) {
      label_weights.push_back(options_.label_weights[mine[i].value()]);
    }
    batch.label_targets.push_back(mine.empty() ? 0.0f
                                  : softmax    ? 1.0f / static_cast<float>(mine.size())
                                               : 1.0f);
    batch.points.push_back(points[s]);
  }
  batch.inputs = SliceInputs(input_offsets, rows, values, use);
  batch.labels = SliceRagged(head_slots_, label_offsets, labels, label_weights);
  if (options_.candidates != nullptr) {
    RETURN_IF_ERROR(AddCandidates(samples, use, epoch, points, batch));
  }
  return batch;
}

std::vector<EmbedForwardOp> BatchPreparer::SliceInputs(const std::vector<int64_t>& offsets,
                                                       const std::vector<RowId>& rows,
                                                       const std::vector<float>& values,
                                                       BatchUse use) const {
  std::vector<EmbedForwardOp> inputs;
  for (RaggedSlice& slice : SliceRagged(embedding_slots_, offsets, rows, values)) {
    EmbedForwardOp op;
    op.table = network_.embedding().name;
    op.offsets = std::move(slice.offsets);
    op.rows = std::move(slice.rows);
    op.values = std::move(slice.values);
    op.averaged = use != BatchUse::kTraining && IsAveraged(network_.embedding());
    inputs.push_back(std::move(op));
  }
  return inputs;
}

absl::Status BatchPreparer::AddCandidates(const SparseBatch& samples, BatchUse use, int64_t epoch,
                                          absl::Span<const int64_t> points,
                                          PreparedBatch& batch) const {
  if (use != BatchUse::kTraining) {
    ASSIGN_OR_RETURN(
        batch.candidates,
        options_.candidates->ForEvaluation(
            samples, use == BatchUse::kValidation ? points : absl::Span<const int64_t>()));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const ExplicitRows<RowId> all,
                   options_.candidates->ForTraining(samples, points, epoch));
  // Those of the samples that have labels.
  ExplicitRows<RowId> kept;
  kept.offsets = {0};
  for (int64_t s = 0; s < samples.samples(); ++s) {
    if (samples.LabelsOf(s).empty()) continue;
    const auto first = all.offsets[static_cast<size_t>(s)];
    const auto end = all.offsets[static_cast<size_t>(s) + 1];
    kept.rows.insert(kept.rows.end(), all.rows.begin() + first, all.rows.begin() + end);
    kept.logit_offsets.insert(kept.logit_offsets.end(), all.logit_offsets.begin() + first,
                              all.logit_offsets.begin() + end);
    kept.weights.insert(kept.weights.end(), all.weights.begin() + first, all.weights.begin() + end);
    kept.offsets.push_back(static_cast<uint32_t>(kept.rows.size()));
  }
  ASSIGN_OR_RETURN(batch.explicit_rows, SliceExplicit(head_slots_, kept));
  return absl::OkStatus();
}

PreparedBatch BatchPreparer::PrepareInputs(const SparseInputs& samples) const {
  PreparedBatch batch;
  std::vector<int64_t> offsets = {0};
  std::vector<RowId> rows;
  std::vector<float> values;
  for (int64_t s = 0; s < samples.batch(); ++s) {
    const size_t first = rows.size();
    const absl::Span<const RowId> features = samples.FeaturesOf(s);
    for (size_t i = 0; i < features.size(); ++i) {
      if (int64_t{features[i].value()} >= network_.num_features()) break;
      rows.push_back(features[i]);
      values.push_back(samples.ValuesOf(s)[i]);
    }
    AddBias(first, rows, values);
    offsets.push_back(static_cast<int64_t>(rows.size()));
    batch.points.push_back(s);
  }
  batch.inputs = SliceInputs(offsets, rows, values, BatchUse::kEvaluation);
  return batch;
}

}  // namespace dslide
