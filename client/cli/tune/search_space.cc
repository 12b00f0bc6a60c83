#include "client/cli/tune/search_space.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "core/base/counter_rng.h"

namespace dslide::cli {
namespace {

constexpr uint64_t kTrialKey = 0x747269616c;  // part of the seed

// A number of the spec.
using Number = std::variant<int64_t*, double*>;

TableSpec& Of(ModelSpec& spec, TableRole role) {
  return *std::find_if(spec.tables.begin(), spec.tables.end(),
                       [role](const TableSpec& table) { return table.role == role; });
}

struct Field {
  const char* name;
  bool of_network;
  Number (*in)(ModelSpec& spec);  // of a model that has it
  // Beside the default. Defaults were chosen on several sets (docs/understand/learning.md): what is
  // best on one lies between a half and twice of them mostly.
  std::vector<double> choices;
};

const std::vector<Field>& Fields() {
  static const auto* const fields = new std::vector<Field>{
      {"memory.neighbours",
       false,
       [](ModelSpec& s) -> Number { return &Of(s, TableRole::kMemory).memory.neighbours; },
       {30, 50, 70, 150, 200, 300}},
      {"memory.similarity_power",
       false,
       [](ModelSpec& s) -> Number { return &Of(s, TableRole::kMemory).memory.similarity_power; },
       {1, 1.5, 2.5, 3, 4}},
      {"memory.candidates",
       false,
       [](ModelSpec& s) -> Number { return &Of(s, TableRole::kMemory).memory.candidates; },
       {100, 300, 500}},
      {"trees.trees",
       false,
       [](ModelSpec& s) -> Number { return &Of(s, TableRole::kLabelTrees).trees.trees; },
       {2, 3, 6}},
      {"trees.leaf_labels",
       false,
       [](ModelSpec& s) -> Number { return &Of(s, TableRole::kLabelTrees).trees.leaf_labels; },
       {25, 100, 200}},
      {"trees.level_step",
       false,
       [](ModelSpec& s) -> Number { return &Of(s, TableRole::kLabelTrees).trees.level_step; },
       {2, 3, 5}},
      {"linear.cost",
       false,
       [](ModelSpec& s) -> Number { return &Of(s, TableRole::kLinear).linear.cost; },
       {0.25, 0.5, 0.7, 1.4, 2, 4}},
      {"linear.drop_below",
       false,
       [](ModelSpec& s) -> Number { return &Of(s, TableRole::kLinear).linear.drop_below; },
       {0.03, 0.05, 0.07, 0.15}},
      {"network.dim",
       true,
       [](ModelSpec& s) -> Number { return &Of(s, TableRole::kEmbedding).dim; },
       {64, 128, 256, 512}},
      {"network.embedding_rate",
       true,
       [](ModelSpec& s) -> Number { return &Of(s, TableRole::kEmbedding).optimizer.learning_rate; },
       {0.003, 0.005, 0.007, 0.014, 0.02}},
      {"network.head_rate",
       true,
       [](ModelSpec& s) -> Number { return &Of(s, TableRole::kHead).optimizer.learning_rate; },
       {0.002, 0.003, 0.004, 0.008, 0.012}},
      {"network.input_dropout",
       true,
       [](ModelSpec& s) -> Number { return &s.training.input_dropout; },
       {0, 0.1, 0.3, 0.5}},
      {"network.hidden_dropout",
       true,
       [](ModelSpec& s) -> Number { return &s.training.hidden_dropout; },
       {0, 0.25, 0.4, 0.6}},
  };
  return *fields;
}

// Over-training ruins a network beside a memory: fewer passes are as good a guess as more.
constexpr double kLengths[] = {0.5, 0.7, 1, 1.5, 2};

double Get(const Number& number) {
  return std::visit([](const auto* value) { return static_cast<double>(*value); }, number);
}

void Set(double value, const Number& number) {
  if (const auto* whole = std::get_if<int64_t*>(&number)) {
    **whole = std::llround(value);
  } else {
    *std::get<double*>(number) = value;
  }
}

// Defaults do well on many sets: what is better is likely to be near, so a trial leaves about half
// of the settings alone.
bool Varies(CounterRng& rng) { return rng.NextBelow(2) == 0; }

}  // namespace

SearchSpace::SearchSpace(const DataShape& shape) : shape_(shape) {
  default_.network = DefaultComponents(shape).FindRole(TableRole::kHead) != nullptr;
  ModelSpec with_network = ComponentsFor(shape, /*network=*/true);
  for (const Field& field : Fields()) default_.values.push_back(Get(field.in(with_network)));
}

std::vector<double> SearchSpace::ChoicesFor(size_t field) const {
  std::vector<double> choices = {default_.values[field]};
  for (const double value : Fields()[field].choices) {
    if (value == choices.front()) continue;
    const bool is_dim = Fields()[field].name == std::string("network.dim");
    if (!is_dim || NetworkFits(shape_, std::llround(value))) choices.push_back(value);
  }
  return choices;
}

TrialSettings SearchSpace::Draw(uint64_t seed, int64_t trial) const {
  TrialSettings settings = default_;
  if (trial == 0) return settings;
  CounterRng rng(DeriveKey(DeriveKey(seed, kTrialKey), static_cast<uint64_t>(trial)));
  while (Differences(settings).empty()) {
    settings = default_;
    // One in four: a network takes as much time as all the rest.
    if (NetworkFits(shape_) && rng.NextBelow(4) == 0) settings.network = !settings.network;
    if (Varies(rng)) settings.network_length = kLengths[rng.NextBelow(std::size(kLengths))];
    for (size_t i = 0; i < settings.values.size(); ++i) {
      if (!Varies(rng)) continue;
      const std::vector<double> choices = ChoicesFor(i);
      settings.values[i] = choices[rng.NextBelow(choices.size())];
    }
  }
  return settings;
}

ModelSpec SearchSpace::SpecOf(const TrialSettings& settings, int64_t points) const {
  ModelSpec spec = ComponentsFor(shape_, settings.network);
  for (size_t i = 0; i < settings.values.size(); ++i) {
    const Field& field = Fields()[i];
    if (!field.of_network || settings.network) Set(settings.values[i], field.in(spec));
  }
  if (!settings.network) return spec;
  Of(spec, TableRole::kHead).dim = Of(spec, TableRole::kEmbedding).dim;
  SetNetworkLength(points, settings.network_length, spec);
  return spec;
}

std::vector<std::pair<std::string, double>> SearchSpace::Differences(
    const TrialSettings& settings) const {
  std::vector<std::pair<std::string, double>> differences;
  if (settings.network != default_.network) {
    differences.emplace_back("network", settings.network ? 1 : 0);
  }
  for (size_t i = 0; i < settings.values.size(); ++i) {
    if (Fields()[i].of_network && !settings.network) continue;
    if (settings.values[i] == default_.values[i]) continue;
    differences.emplace_back(Fields()[i].name, settings.values[i]);
  }
  if (settings.network && settings.network_length != 1) {
    differences.emplace_back("network.length", settings.network_length);
  }
  return differences;
}

}  // namespace dslide::cli
