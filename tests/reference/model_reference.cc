#include "tests/reference/model_reference.h"

#include <algorithm>
#include <cmath>

namespace dslide::reference {
namespace {

Vector Relu(Vector x) {
  for (double& value : x) value = std::max(0.0, value);
  return x;
}

double Dot(const Vector& a, const Vector& b) {
  double sum = 0.0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// The activations of every layer: after the embedding, then after each dense layer.
std::vector<Vector> Activations(const Network& network, const Sample& sample) {
  Vector sum(network.embedding[0].size(), 0.0);
  for (size_t f = 0; f < sample.features.size(); ++f) {
    for (size_t i = 0; i < sum.size(); ++i) {
      sum[i] += sample.values[f] * network.embedding[sample.features[f]][i];
    }
  }
  std::vector<Vector> activations = {Relu(sum)};
  for (const Layer& layer : network.dense) {
    Vector next(layer.weights.size());
    for (size_t o = 0; o < next.size(); ++o) {
      next[o] = Dot(layer.weights[o], activations.back()) + layer.bias[o];
    }
    activations.push_back(Relu(next));
  }
  return activations;
}

double Logit(const Network& network, const Vector& hidden, int64_t row) {
  return Dot(network.head.weights[row], hidden) + network.head.bias[row];
}

Network ZerosLike(const Network& network) {
  Network zeros = network;
  for (double* parameter : Parameters(zeros)) *parameter = 0.0;
  return zeros;
}

// Of a row among the sample's terms.
double LogitOffset(const Sample& sample, int64_t row) {
  for (const HeadTerm& term : sample.terms) {
    if (term.row == row) return term.logit_offset;
  }
  return 0.0;
}

bool IsLabel(const Sample& sample, int64_t row) {
  return std::find(sample.labels.begin(), sample.labels.end(), row) != sample.labels.end();
}

// Derivative of the sample's loss by the logit of one of its terms.
double LogitGradient(const Network& network, const Sample& sample, const HeadTerm& term,
                     double logit, double log_partition) {
  const double target = IsLabel(sample, term.row) ? TargetOf(network, sample) : 0.0;
  if (network.sigmoid) return term.weight / (1.0 + std::exp(-logit)) - target;
  if (sample.labels.empty()) return 0.0;
  return term.weight * std::exp(logit - log_partition) - target;
}

void AddGradient(const Network& network, const Sample& sample, double scale, Network& gradient) {
  const std::vector<Vector> activations = Activations(network, sample);
  const double log_partition = LogPartition(network, sample);
  Vector d_hidden(activations.back().size(), 0.0);
  for (const HeadTerm& term : sample.terms) {
    const double logit = Logit(network, activations.back(), term.row) + term.logit_offset;
    const double g = scale * LogitGradient(network, sample, term, logit, log_partition);
    for (size_t i = 0; i < d_hidden.size(); ++i) {
      gradient.head.weights[term.row][i] += g * activations.back()[i];
      d_hidden[i] += g * network.head.weights[term.row][i];
    }
    gradient.head.bias[term.row] += g;
  }
  for (size_t l = network.dense.size(); l > 0; --l) {
    const Layer& layer = network.dense[l - 1];
    const Vector& input = activations[l - 1];
    Vector d_input(input.size(), 0.0);
    for (size_t o = 0; o < layer.weights.size(); ++o) {
      if (activations[l][o] <= 0.0) continue;
      for (size_t i = 0; i < input.size(); ++i) {
        gradient.dense[l - 1].weights[o][i] += d_hidden[o] * input[i];
        d_input[i] += d_hidden[o] * layer.weights[o][i];
      }
      gradient.dense[l - 1].bias[o] += d_hidden[o];
    }
    d_hidden = d_input;
  }
  for (size_t i = 0; i < d_hidden.size(); ++i) {
    if (activations[0][i] <= 0.0) continue;
    for (size_t f = 0; f < sample.features.size(); ++f) {
      gradient.embedding[sample.features[f]][i] += sample.values[f] * d_hidden[i];
    }
  }
}

}  // namespace

double TargetOf(const Network& network, const Sample& sample) {
  if (network.sigmoid) return 1.0;
  return sample.labels.empty() ? 0.0 : 1.0 / static_cast<double>(sample.labels.size());
}

Vector HiddenOf(const Network& network, const Sample& sample) {
  return Activations(network, sample).back();
}

double LogPartition(const Network& network, const Sample& sample) {
  const Vector hidden = HiddenOf(network, sample);
  double sum = 0.0;
  for (const HeadTerm& term : sample.terms) {
    sum += term.weight * std::exp(Logit(network, hidden, term.row) + term.logit_offset);
  }
  return std::log(sum);
}

double Loss(const Network& network, const std::vector<Sample>& samples, double scale) {
  double loss = 0.0;
  for (const Sample& sample : samples) {
    const Vector hidden = HiddenOf(network, sample);
    const double log_partition = LogPartition(network, sample);
    for (const HeadTerm& term : sample.terms) {
      if (!network.sigmoid) break;
      const double logit = Logit(network, hidden, term.row) + term.logit_offset;
      loss += term.weight * std::log(1.0 + std::exp(logit));
    }
    for (const int64_t label : sample.labels) {
      const double logit = Logit(network, hidden, label) + LogitOffset(sample, label);
      loss += network.sigmoid ? -logit : TargetOf(network, sample) * (log_partition - logit);
    }
  }
  return scale * loss;
}

Network Gradient(const Network& network, const std::vector<Sample>& samples, double scale) {
  Network gradient = ZerosLike(network);
  for (const Sample& sample : samples) AddGradient(network, sample, scale, gradient);
  return gradient;
}

std::vector<double*> Parameters(Network& network) {
  std::vector<double*> parameters;
  const auto add = [&](Vector& values) {
    for (double& value : values) parameters.push_back(&value);
  };
  for (Vector& row : network.embedding) add(row);
  for (Layer& layer : network.dense) {
    for (Vector& row : layer.weights) add(row);
    add(layer.bias);
  }
  for (Vector& row : network.head.weights) add(row);
  add(network.head.bias);
  return parameters;
}

Touched TouchedBy(const Network& network, const std::vector<Sample>& samples) {
  Touched touched{std::vector<bool>(network.embedding.size(), false),
                  std::vector<bool>(network.head.weights.size(), false)};
  for (const Sample& sample : samples) {
    for (const int64_t feature : sample.features) touched.embedding[feature] = true;
    for (const HeadTerm& term : sample.terms) touched.head[term.row] = true;
  }
  return touched;
}

Adam::Adam(const Network& shape, double rate, double beta1, double beta2, double epsilon)
    : rate_(rate),
      beta1_(beta1),
      beta2_(beta2),
      epsilon_(epsilon),
      m_(ZerosLike(shape)),
      v_(ZerosLike(shape)) {}

void Adam::Update(const Network& gradient, const Touched& touched, Network& network) {
  ++step_;
  const double correction1 = 1.0 - std::pow(beta1_, static_cast<double>(step_));
  const double correction2 = 1.0 - std::pow(beta2_, static_cast<double>(step_));
  const auto update = [&](const Vector& g, bool moves, Vector& m, Vector& v, Vector& w) {
    for (size_t i = 0; i < g.size(); ++i) {
      m[i] = beta1_ * m[i] + (1.0 - beta1_) * g[i];
      v[i] = beta2_ * v[i] + (1.0 - beta2_) * g[i] * g[i];
      if (moves) w[i] -= rate_ * (m[i] / correction1) / (std::sqrt(v[i] / correction2) + epsilon_);
    }
  };
  for (size_t r = 0; r < gradient.embedding.size(); ++r) {
    update(gradient.embedding[r], touched.embedding[r], m_.embedding[r], v_.embedding[r],
           network.embedding[r]);
  }
  for (size_t l = 0; l < gradient.dense.size(); ++l) {
    for (size_t o = 0; o < gradient.dense[l].weights.size(); ++o) {
      update(gradient.dense[l].weights[o], true, m_.dense[l].weights[o], v_.dense[l].weights[o],
             network.dense[l].weights[o]);
    }
    update(gradient.dense[l].bias, true, m_.dense[l].bias, v_.dense[l].bias, network.dense[l].bias);
  }
  for (size_t r = 0; r < gradient.head.weights.size(); ++r) {
    update(gradient.head.weights[r], touched.head[r], m_.head.weights[r], v_.head.weights[r],
           network.head.weights[r]);
    Vector g = {gradient.head.bias[r]};
    Vector m = {m_.head.bias[r]};
    Vector v = {v_.head.bias[r]};
    Vector w = {network.head.bias[r]};
    update(g, touched.head[r], m, v, w);
    m_.head.bias[r] = m[0];
    v_.head.bias[r] = v[0];
    network.head.bias[r] = w[0];
  }
}

void SgdUpdate(const Network& gradient, double rate, Network& network) {
  Network step = gradient;
  const std::vector<double*> from = Parameters(step);
  const std::vector<double*> to = Parameters(network);
  for (size_t i = 0; i < to.size(); ++i) *to[i] -= rate * *from[i];
}

}  // namespace dslide::reference
