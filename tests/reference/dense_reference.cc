#include "tests/reference/dense_reference.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace dslide::reference {
namespace {

void Adam(const DenseModel& model, DenseParameter& parameter, int64_t at) {
  const double g = parameter.gradient[at];
  double& m = parameter.m[at];
  double& v = parameter.v[at];
  m = model.beta1 * m + (1 - model.beta1) * g;
  v = model.beta2 * v + (1 - model.beta2) * g * g;
  const auto t = static_cast<double>(model.steps);
  const double corrected_m = m / (1 - std::pow(model.beta1, t));
  const double corrected_v = v / (1 - std::pow(model.beta2, t));
  parameter.value[at] -=
      model.learning_rate * corrected_m / (std::sqrt(corrected_v) + model.epsilon);
}

void AdamAll(const DenseModel& model, DenseParameter& parameter) {
  for (size_t at = 0; at < parameter.value.size(); ++at) {
    Adam(model, parameter, static_cast<int64_t>(at));
  }
}

std::vector<double> Hidden(const DenseModel& model, const SparseBatch& batch, int64_t sample) {
  std::vector<double> hidden = model.hidden_bias.value;
  for (size_t i = 0; i < batch.FeaturesOf(sample).size(); ++i) {
    const int64_t row = batch.FeaturesOf(sample)[i].value();
    for (int64_t d = 0; d < model.hidden; ++d) {
      hidden[d] += static_cast<double>(batch.ValuesOf(sample)[i]) *
                   model.embedding.value[row * model.hidden + d];
    }
  }
  for (double& x : hidden) x = std::max(x, 0.0);
  return hidden;
}

// Adds one sample's gradients; returns its loss.
double Accumulate(DenseModel& model, const SparseBatch& batch, int64_t sample) {
  const auto labels = batch.LabelsOf(sample);
  if (labels.empty()) return 0.0;
  const std::vector<double> hidden = Hidden(model, batch, sample);
  std::vector<double> logits = model.head_bias.value;
  double sum = 0.0;
  for (int64_t row = 0; row < model.labels; ++row) {
    for (int64_t d = 0; d < model.hidden; ++d) {
      logits[row] += model.head.value[row * model.hidden + d] * hidden[d];
    }
    sum += std::exp(logits[row]);
  }
  double loss = 0.0;
  std::vector<double> hidden_gradient(model.hidden, 0.0);
  for (int64_t row = 0; row < model.labels; ++row) {
    const bool right =
        std::find(labels.begin(), labels.end(), RowId(static_cast<uint32_t>(row))) != labels.end();
    const double target = right ? 1.0 / static_cast<double>(labels.size()) : 0.0;
    const double probability = std::exp(logits[row]) / sum;
    loss -= target * std::log(probability);
    const double g = (probability - target) / static_cast<double>(batch.samples());
    model.head_bias.gradient[row] += g;
    for (int64_t d = 0; d < model.hidden; ++d) {
      model.head.gradient[row * model.hidden + d] += g * hidden[d];
      hidden_gradient[d] += g * model.head.value[row * model.hidden + d];
    }
  }
  for (int64_t d = 0; d < model.hidden; ++d) {
    if (hidden[d] <= 0) continue;
    model.hidden_bias.gradient[d] += hidden_gradient[d];
    for (size_t i = 0; i < batch.FeaturesOf(sample).size(); ++i) {
      model.embedding.gradient[batch.FeaturesOf(sample)[i].value() * model.hidden + d] +=
          static_cast<double>(batch.ValuesOf(sample)[i]) * hidden_gradient[d];
    }
  }
  return loss;
}

}  // namespace

DenseParameter::DenseParameter(std::vector<double> first_values)
    : value(std::move(first_values)),
      gradient(value.size(), 0.0),
      m(value.size(), 0.0),
      v(value.size(), 0.0) {}

double TrainDense(DenseModel& model, const SparseBatch& batch) {
  for (DenseParameter* parameter :
       {&model.embedding, &model.hidden_bias, &model.head, &model.head_bias}) {
    std::fill(parameter->gradient.begin(), parameter->gradient.end(), 0.0);
  }
  ++model.steps;
  double loss = 0.0;
  for (int64_t sample = 0; sample < batch.samples(); ++sample) {
    loss += Accumulate(model, batch, sample);
  }
  AdamAll(model, model.hidden_bias);
  AdamAll(model, model.head);
  AdamAll(model, model.head_bias);
  std::set<uint32_t> touched;
  for (const RowId feature : batch.features) touched.insert(feature.value());
  for (const uint32_t row : touched) {
    for (int64_t d = 0; d < model.hidden; ++d) Adam(model, model.embedding, row * model.hidden + d);
  }
  return loss / static_cast<double>(batch.samples());
}

}  // namespace dslide::reference
