// A whole network in double precision and plain loops: embedding bag, ReLU, dense layers, wide
// head. Judges the tables of core/model. No optimisation, no threads, no sharing of code with them.

#pragma once

#include <cstdint>
#include <vector>

namespace dslide::reference {

using Vector = std::vector<double>;
using Matrix = std::vector<Vector>;

// y = W x + b. weights: [outputs][inputs], bias: [outputs].
struct Layer {
  Matrix weights;
  Vector bias;
};

// One term of a sample's softmax sum (or of its sum of logistic losses).
struct HeadTerm {
  int64_t row = 0;
  double weight = 1.0;
  double logit_offset = 0.0;
};

struct Sample {
  std::vector<int64_t> features;  // a bias row is one of them, with value 1
  Vector values;
  std::vector<int64_t> labels;
  std::vector<HeadTerm> named;  // explicit rows, ascending; not looked at by the reference
  std::vector<HeadTerm> terms;  // with the labels among them
};

// Parameters, or anything of their shape: gradients, moments.
struct Network {
  Matrix embedding;  // [features][width]
  std::vector<Layer> dense;
  Layer head;
  bool sigmoid = false;
};

// Each label's target: softmax 1 / number of labels, sigmoid 1.
double TargetOf(const Network& network, const Sample& sample);

// The activations before the head.
Vector Hidden(const Network& network, const Sample& sample);

// log of the sum of weight * exp(logit) over the sample's terms.
double LogPartition(const Network& network, const Sample& sample);

// scale * sum over samples of the loss. Softmax: the cross-entropy, 0 for a sample without labels;
// sigmoid: sum over terms of weight * log(1 + exp(logit)), minus the labels' logits.
double Loss(const Network& network, const std::vector<Sample>& samples, double scale);

// Its derivative by every parameter, by backpropagation.
Network Gradient(const Network& network, const std::vector<Sample>& samples, double scale);

// All parameters of a network one after the other, to visit or change them.
std::vector<double*> Parameters(Network& network);

// Which rows a step updates: of the embedding, and of the head.
struct Touched {
  std::vector<bool> embedding;
  std::vector<bool> head;
};
Touched TouchedBy(const Network& network, const std::vector<Sample>& samples);

// Adam over all parameters, moments updated at every step, as the text books have it, with one
// change: rows of the embedding and of the head that a step does not touch do not move in it.
class Adam {
 public:
  Adam(const Network& shape, double rate, double beta1, double beta2, double epsilon);
  void Update(const Network& gradient, const Touched& touched, Network& network);

 private:
  const double rate_, beta1_, beta2_, epsilon_;
  int64_t step_ = 0;
  Network m_;
  Network v_;
};

// w -= rate * gradient.
void SgdUpdate(const Network& gradient, double rate, Network& network);

}  // namespace dslide::reference
