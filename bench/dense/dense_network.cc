#include "bench/dense/dense_network.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "bench/dense/blas.h"
#include "core/base/status_macros.h"
#include "core/engine/math/kernels.h"
#include "core/engine/rows/row_init.h"
#include "core/spec/model_spec.h"

namespace dslide::bench {
namespace {

constexpr int64_t kMaxWidth = 65536;

absl::Status CheckRange(const char* field, int64_t value, int64_t limit) {
  if (value >= 1 && value <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("dense baseline: ", field, " is ", value, ", must be in [1, ", limit, "]"));
}

absl::Status CheckIds(const char* what, int64_t sample, absl::Span<const RowId> ids,
                      int64_t limit) {
  for (const RowId id : ids) {
    if (id.value() < limit) continue;
    return absl::InvalidArgumentError(absl::StrCat("dense baseline: sample ", sample, " has ", what,
                                                   " ", id.value(), " of [0, ", limit, ")"));
  }
  return absl::OkStatus();
}

class StageTimer {
 public:
  // Seconds since the last call.
  double Lap() {
    const absl::Duration now = SteadyClock().Now();
    const absl::Duration passed = now - last_;
    last_ = now;
    return absl::ToDoubleSeconds(passed);
  }

 private:
  absl::Duration last_ = SteadyClock().Now();
};

}  // namespace

absl::Status DenseOptions::Validate() const {
  RETURN_IF_ERROR(CheckRange("features", features, kMaxTableRows));
  RETURN_IF_ERROR(CheckRange("hidden", hidden, kMaxWidth));
  RETURN_IF_ERROR(CheckRange("labels", labels, kMaxTableRows));
  return CheckRange("max_batch", max_batch, kMaxWidth);
}

absl::StatusOr<std::unique_ptr<DenseNetwork>> DenseNetwork::Create(const DenseOptions& options) {
  RETURN_IF_ERROR(options.Validate());
  if (!BlasAvailable()) {
    return absl::UnimplementedError(
        "dense baseline: this build has no BLAS library; install libopenblas-openmp-dev and build "
        "again");
  }
  UseCallingThread();
  auto network = std::unique_ptr<DenseNetwork>(new DenseNetwork(options));
  RETURN_IF_ERROR(network->Allocate());
  network->InitializeWeights();
  ASSIGN_OR_RETURN(network->head_,
                   DenseHead::Create(options.labels, options.hidden, options.max_batch,
                                     options.seed, options.parallelism));
  return network;
}

absl::Status DenseNetwork::Allocate() {
  for (AlignedBuffer* buffer : {&embedding_, &embedding_m_, &embedding_v_}) {
    ASSIGN_OR_RETURN(*buffer, AlignedBuffer::Create(options_.features * options_.hidden));
  }
  for (AlignedBuffer* buffer : {&bias_, &bias_m_, &bias_v_}) {
    ASSIGN_OR_RETURN(*buffer, AlignedBuffer::Create(options_.hidden));
  }
  for (AlignedBuffer* buffer : {&hidden_, &hidden_gradient_}) {
    ASSIGN_OR_RETURN(*buffer, AlignedBuffer::Create(options_.max_batch * options_.hidden));
  }
  return absl::OkStatus();
}

void DenseNetwork::InitializeWeights() {
  TableSpec spec;
  spec.name = "input";
  spec.dim = options_.hidden;
  const RowInit init(spec, options_.seed);
  ParallelFor(options_.parallelism, options_.features, 1024, [&](int64_t row, int) {
    init.Fill(RowId(static_cast<uint32_t>(row)),
              embedding_.span().subspan(row * options_.hidden, options_.hidden));
  });
}

absl::Status DenseNetwork::CheckBatch(const SparseBatch& batch) const {
  RETURN_IF_ERROR(CheckRange("samples of a batch", batch.samples(), options_.max_batch));
  for (int64_t sample = 0; sample < batch.samples(); ++sample) {
    RETURN_IF_ERROR(CheckIds("feature", sample, batch.FeaturesOf(sample), options_.features));
    RETURN_IF_ERROR(CheckIds("label", sample, batch.LabelsOf(sample), options_.labels));
  }
  return absl::OkStatus();
}

absl::StatusOr<DenseStep> DenseNetwork::Train(const SparseBatch& batch) {
  RETURN_IF_ERROR(CheckBatch(batch));
  ++steps_;
  DenseStep step;
  StageTimer timer;
  Embed(batch);
  step.embed = timer.Lap();
  step.loss = head_->Forward(batch, hidden_.data());
  step.head_forward = timer.Lap();
  head_->Backward(hidden_.data(), options_.adam, steps_, hidden_gradient_.data());
  step.head_backward = timer.Lap();
  MaskHiddenGradient(batch.samples());
  step.input_rows = UpdateInput(batch);
  step.input_update = timer.Lap();
  return step;
}

void DenseNetwork::Embed(const SparseBatch& batch) {
  const int64_t dim = options_.hidden;
  ParallelFor(options_.parallelism, batch.samples(), 8, [&](int64_t sample, int) {
    float* const hidden = hidden_.data() + sample * dim;
    std::copy_n(bias_.data(), dim, hidden);
    const absl::Span<const RowId> features = batch.FeaturesOf(sample);
    const absl::Span<const float> values = batch.ValuesOf(sample);
    for (size_t i = 0; i < features.size(); ++i) {
      Axpy(values[i], embedding_.data() + features[i].value() * dim, hidden, dim);
    }
    for (int64_t i = 0; i < dim; ++i) hidden[i] = std::max(hidden[i], 0.0f);
  });
}

void DenseNetwork::MaskHiddenGradient(int64_t samples) {
  for (int64_t i = 0; i < samples * options_.hidden; ++i) {
    if (hidden_.data()[i] <= 0.0f) hidden_gradient_.data()[i] = 0.0f;
  }
}

// Adam of the features that occur and of the bias; moments of other features stay as they are.
// Returns the number of distinct features.
int64_t DenseNetwork::UpdateInput(const SparseBatch& batch) {
  const int64_t dim = options_.hidden;
  inputs_.clear();
  for (int64_t sample = 0; sample < batch.samples(); ++sample) {
    const absl::Span<const RowId> features = batch.FeaturesOf(sample);
    for (size_t i = 0; i < features.size(); ++i) {
      inputs_.push_back({.feature = features[i].value(),
                         .sample = static_cast<uint32_t>(sample),
                         .value = batch.ValuesOf(sample)[i]});
    }
  }
  std::sort(inputs_.begin(), inputs_.end(), [](const Input& a, const Input& b) {
    return a.feature != b.feature ? a.feature < b.feature : a.sample < b.sample;
  });
  first_input_.clear();
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (i == 0 || inputs_[i].feature != inputs_[i - 1].feature) {
      first_input_.push_back(static_cast<int64_t>(i));
    }
  }
  const auto distinct = static_cast<int64_t>(first_input_.size());
  first_input_.push_back(static_cast<int64_t>(inputs_.size()));
  std::vector<std::vector<float>> gradients(options_.parallelism.threads);
  ParallelFor(options_.parallelism, distinct, 64, [&](int64_t group, int thread) {
    std::vector<float>& gradient = gradients[thread];
    gradient.assign(dim, 0.0f);
    for (int64_t i = first_input_[group]; i < first_input_[group + 1]; ++i) {
      Axpy(inputs_[i].value, hidden_gradient_.data() + inputs_[i].sample * dim, gradient.data(),
           dim);
    }
    const int64_t at = inputs_[first_input_[group]].feature * dim;
    options_.adam.Update(steps_, dim, gradient.data(), embedding_.data() + at,
                         embedding_m_.data() + at, embedding_v_.data() + at);
  });
  std::vector<float> bias_gradient(dim, 0.0f);
  for (int64_t sample = 0; sample < batch.samples(); ++sample) {
    AddTo(hidden_gradient_.data() + sample * dim, bias_gradient.data(), dim);
  }
  options_.adam.Update(steps_, dim, bias_gradient.data(), bias_.data(), bias_m_.data(),
                       bias_v_.data());
  return distinct;
}

}  // namespace dslide::bench
