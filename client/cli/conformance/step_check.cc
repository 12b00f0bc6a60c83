#include "client/cli/conformance/step_check.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "client/cli/conformance/course_slots.h"
#include "core/base/bfloat16.h"
#include "core/engine/optim/optimizer.h"

namespace dslide::cli {
namespace {

constexpr std::array<const char*, 4> kStages = {"EmbedForward", "HeadForward", "HeadBackward",
                                                "EmbedBackward"};
template <typename Op>
constexpr int StageOf() {
  if constexpr (std::is_same_v<Op, EmbedForwardOp>) return 0;
  if constexpr (std::is_same_v<Op, HeadForwardOp>) return 1;
  if constexpr (std::is_same_v<Op, HeadBackwardOp>) return 2;
  if constexpr (std::is_same_v<Op, EmbedBackwardOp>) return 3;
  return -1;
}

template <typename Op>
constexpr const char* OperationName() {
  if constexpr (std::is_same_v<Op, DenseGatherOp>) return "DenseGather";
  if constexpr (std::is_same_v<Op, DenseScatterOp>) return "DenseScatter";
  return StageOf<Op>() < 0 ? "Step" : kStages[std::max(StageOf<Op>(), 0)];
}

// The upper half of the bits, without rounding.
float CutOff(float value) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) & 0xffff0000u);
}

std::string WordOf(HashFamilyKind family) {
  return family == HashFamilyKind::kDwta ? "dwta" : "simhash";
}

bool Near(double found, double wanted, double relative) {
  return std::abs(found - wanted) <= relative * std::max(1.0, std::abs(wanted));
}

}  // namespace

StepCheck::StepCheck(const NetReference& net, PreparedBatch batch, int64_t step, int64_t first,
                     Verdicts& verdicts)
    : net_(net),
      batch_(std::move(batch)),
      step_(step),
      first_(first),
      verdicts_(verdicts),
      all_shards_((1u << batch_.inputs.size()) - 1),
      partials_(batch_.inputs.size()),
      heads_(batch_.inputs.size()),
      hidden_gradients_(batch_.inputs.size()),
      layers_(net.network(), net.job().seed, batch_.epoch, batch_.points, batch_.inputs.size()) {}

void StepCheck::Tell(int shard, std::string field, std::string found, std::string expected,
                     const std::string& where) {
  verdicts_.Add({.chapter = chapter(),
                 .call = call_,
                 .where = absl::StrCat("model ", net_.spec().name, ", shard ", shard, ", step ",
                                       step_, where.empty() ? "" : ", ", where),
                 .field = std::move(field),
                 .found = std::move(found),
                 .expected = std::move(expected),
                 .section = chapter() == Chapter::kDropout
                                ? "random-numbers-and-the-order-of-points"
                                : "training"});
}

void StepCheck::Request(int shard, const StepOp& op) {
  std::visit(
      [&](const auto& operation) {
        constexpr int kStage = StageOf<std::decay_t<decltype(operation)>>();
        call_ = OperationName<std::decay_t<decltype(operation)>>();
        if constexpr (kStage >= 0) {
          if ((asked_[kStage] >> shard & 1) != 0) {
            Tell(shard, "step", "the same once more with a new sequence",
                 "one such operation for each shard in a step");
            return;
          }
          asked_[kStage] |= 1u << shard;
        }
        Check(shard, operation);
      },
      op);
}

void StepCheck::Answer(int shard, absl::string_view table, const ReplyBody& reply) {
  int stage = -1;
  if (const auto* embed = std::get_if<EmbedForwardReply>(&reply)) {
    partials_[shard] = embed->partial;
    stage = 0;
  } else if (const auto* head = std::get_if<HeadForwardReply>(&reply)) {
    heads_[shard] = head->output;
    stage = 1;
  } else if (const auto* backward = std::get_if<HeadBackwardReply>(&reply)) {
    hidden_gradients_[shard] = backward->hidden_gradient;
    stage = 2;
  } else if (std::holds_alternative<EmbedBackwardReply>(reply)) {
    stage = 3;
  }
  if (stage >= 0) answered_[stage] |= 1u << shard;
  const std::optional<size_t> layer = layers_.Find(table);
  if (!layer.has_value()) return;
  if (const auto* gathered = std::get_if<DenseGatherReply>(&reply)) {
    layers_.Gathered(*layer, shard, gathered->rows);
  } else if (std::holds_alternative<DenseScatterReply>(reply)) {
    layers_.Scattered(*layer, shard);
  }
}

std::optional<size_t> StepCheck::LayerOf(int shard, HiddenLayers::Kind kind,
                                         const std::string& table) {
  const std::optional<size_t> layer = layers_.Find(table);
  if (!layer.has_value()) {
    Tell(shard, "table", absl::StrCat("\"", table, "\""), "that of a dense layer of the model");
  } else if (!layers_.Asked(kind, *layer, shard)) {
    Tell(shard, "table", absl::StrCat("\"", table, "\" once more with a new sequence"),
         "one such operation for each shard and layer in a step");
    return std::nullopt;
  }
  return layer;
}

bool StepCheck::Has(int shard, int stage) {
  if (answered_[stage] == all_shards_) return true;
  Tell(shard, "step", absl::StrCat("sent before every shard has answered ", kStages[stage]),
       absl::StrCat("sent when all ", batch_.inputs.size(), " have: it is made of their answers"));
  return false;
}

bool StepCheck::HasLayers(int shard) {
  const std::optional<size_t> layer = layers_.FirstUngathered();
  if (!layer.has_value()) return true;
  Tell(shard, "step",
       absl::StrCat("sent before every shard has answered DenseGather of table \"",
                    layers_.table(*layer).name, "\""),
       absl::StrCat("sent when all ", batch_.inputs.size(), " have: it is made of their rows"));
  return false;
}

void StepCheck::Check(int shard, const DenseGatherOp& op) {
  if (op.averaged) Tell(shard, "averaged", "true", "false in training");
  LayerOf(shard, HiddenLayers::Kind::kGather, op.table);
}

void StepCheck::Check(int shard, const EmbedForwardOp& op) {
  const EmbedForwardOp& wanted = batch_.inputs[shard];
  if (op.averaged) Tell(shard, "averaged", "true", "false in training");
  if (op.offsets.size() != wanted.offsets.size()) {
    Tell(shard, "batch", absl::StrCat(op.offsets.size() - 1),
         absl::StrCat(batch_.samples(), ", the points at the positions from ", first_, " of epoch ",
                      batch_.epoch, "'s order"));
    return;
  }
  for (size_t i = 0; i + 1 < op.offsets.size(); ++i) {
    const auto part = [i](const EmbedForwardOp& of) {
      return absl::MakeConstSpan(of.rows).subspan(of.offsets[i], of.offsets[i + 1] - of.offsets[i]);
    };
    if (part(op) == part(wanted)) continue;
    Tell(shard, "rows", ListOf(part(op)),
         absl::StrCat(ListOf(part(wanted)), ": position ", first_ + static_cast<int64_t>(i),
                      " of epoch ", batch_.epoch, "'s order is point ", batch_.points[i],
                      ", of whose features (and the bias row) this shard owns these",
                      net_.spec().training.input_dropout > 0 ? ", without those that input dropout "
                                                               "draws below p"
                                                             : ""),
         absl::StrCat("sample ", i));
    return;
  }
  for (size_t i = 0; i < op.values.size(); ++i) {
    if (Near(op.values[i], wanted.values[i], 4 * kRounding)) continue;
    Tell(shard, "values", absl::StrCat(NumberOf(op.values[i]), " of row ", op.rows[i].value()),
         absl::StrCat(NumberOf(wanted.values[i]),
                      ": v / sqrt(sum of v * v) over the sample's features, ",
                      net_.spec().training.input_dropout > 0
                          ? "those that are left out included, then times 1 / (1 - p), "
                          : "",
                      "and 1 for the bias row"));
    return;
  }
}

void StepCheck::CheckWithin(int shard, const char* field, absl::Span<const float> found,
                            absl::Span<const Interval> wanted, absl::Span<const RowId> rows,
                            const std::string& why) {
  if (found.size() != wanted.size()) {
    Tell(shard, field, absl::StrCat(found.size(), " numbers"), absl::StrCat(wanted.size(), why));
    return;
  }
  const int64_t of = rows.empty() ? batch_.samples() : static_cast<int64_t>(rows.size());
  const auto width = static_cast<int64_t>(found.size()) / of;
  for (size_t i = 0; i < found.size(); ++i) {
    if (wanted[i].low <= found[i] && found[i] <= wanted[i].high) continue;
    const auto place = static_cast<int64_t>(i);
    const std::string range =
        wanted[i].low == wanted[i].high
            ? NumberOf(static_cast<float>(wanted[i].low))
            : absl::StrCat(NumberOf(static_cast<float>(wanted[i].low)), " to ",
                           NumberOf(static_cast<float>(wanted[i].high)));
    const std::string line = rows.empty() ? absl::StrCat("sample ", place / width)
                                          : absl::StrCat("row ", rows[place / width].value());
    Tell(shard, field, NumberOf(found[i]), range + why,
         absl::StrCat(line, ", column ", place % width));
    return;
  }
}

bool StepCheck::CheckDropout(int shard, absl::Span<const float> found) {
  const absl::Span<const float> factors = layers_.last_factors();
  const absl::Span<const Interval> wanted = layers_.hidden();
  if (factors.size() != found.size()) return true;
  const auto width = static_cast<size_t>(net_.network().head().dim);
  for (size_t i = 0; i < found.size(); ++i) {
    const double factor = factors[i];
    const double x = found[i];
    const std::string unit = absl::StrCat("unit ", i % width, " of point ",
                                          batch_.points[i / width], " in epoch ", batch_.epoch);
    const std::string place = absl::StrCat("sample ", i / width, ", column ", i % width);
    if (factor == 0 && x != 0) {
      Tell(shard, "hidden", NumberOf(found[i]),
           absl::StrCat("0: hidden dropout leaves ", unit, " out"), place);
      return false;
    }
    if (factor != 0 && x == 0 && wanted[i].low > 0) {
      Tell(shard, "hidden", "0", absl::StrCat("not 0: hidden dropout keeps ", unit), place);
      return false;
    }
    if (factor != 0 && x > 0 && x < wanted[i].low && x * factor >= wanted[i].low * (1 - 1e-6) &&
        x * factor <= wanted[i].high * (1 + 1e-6)) {
      Tell(shard, "hidden", absl::StrCat(NumberOf(found[i]), ", which is not scaled"),
           absl::StrCat("times 1 / (1 - p) = ", NumberOf(factors[i])), place);
      return false;
    }
  }
  return true;
}

void StepCheck::CheckHidden(int shard, absl::Span<const float> found) {
  const auto width = static_cast<size_t>(net_.network().embedding().dim);
  Bounds sums = SumBounds(partials_);
  // Of another batch than this one: that was told.
  if (sums.size() != static_cast<size_t>(batch_.samples()) * width) return;
  if (!forward_) {
    const absl::Status forward = layers_.Forward(std::move(sums));
    if (!forward.ok()) return;  // not as the shards answer
    forward_ = true;
  }
  if (!CheckDropout(shard, found)) return;
  const Bounds& wanted = layers_.hidden();
  // A cut instead of a rounding is off by a unit everywhere: it has a name.
  bool cut = net_.spec().activations == ActivationType::kBf16 && found.size() == wanted.size();
  bool differs = false;
  for (size_t i = 0; cut && i < found.size(); ++i) {
    const Interval& exact = layers_.unrounded()[i];
    cut = found[i] >= CutOff(static_cast<float>(exact.low)) &&
          found[i] <= CutOff(static_cast<float>(exact.high));
    differs = differs || found[i] < wanted[i].low || found[i] > wanted[i].high;
  }
  if (cut && differs) {
    Tell(shard, "hidden", "f32 whose lower 16 bits were cut off",
         "bf16 rounded to nearest, ties to even: (b + 0x7fff + ((b >> 16) & 1)) >> 16");
    return;
  }
  const size_t dense = net_.network().dense().size();
  CheckWithin(shard, "hidden", found, wanted, {},
              dense == 0 ? ""
                         : absl::StrCat(": max(W h + b, 0) of each of the ", dense,
                                        " dense layers, and only the last one's rounded"));
}

void StepCheck::CheckFingerprints(int shard, const HeadForwardOp& op) {
  const HashFamily* const family = net_.network().hash_family();
  if (family == nullptr) {
    if (op.fingerprints.empty()) return;
    Tell(shard, "fingerprints", absl::StrCat(op.fingerprints.size(), " numbers"),
         "none: max_active is 0, so every row is active");
    return;
  }
  const int64_t batch = batch_.samples();
  std::vector<uint32_t> wanted(static_cast<size_t>(batch * family->num_tables()));
  if (op.fingerprints.size() != wanted.size()) {
    Tell(shard, "fingerprints", absl::StrCat(op.fingerprints.size(), " numbers"),
         absl::StrCat("[", batch, ", ", family->num_tables(), "]"));
    return;
  }
  family->HashQueries(op.hidden, batch, Parallelism{1}, absl::MakeSpan(wanted));
  const auto differs = std::mismatch(wanted.begin(), wanted.end(), op.fingerprints.begin());
  if (differs.first == wanted.end()) return;
  const HashSpec hash = ResolvedHead(net_.network().head()).hash;
  HashSpec other = hash;
  const bool dwta = hash.family == HashFamilyKind::kDwta;
  other.family = dwta ? HashFamilyKind::kSimHash : HashFamilyKind::kDwta;
  const auto others = HashFamily::Create(other, op.dim);
  std::string hint;
  if (others.ok() && (*others)->num_tables() == family->num_tables()) {
    std::vector<uint32_t> theirs(wanted.size());
    (*others)->HashQueries(op.hidden, batch, Parallelism{1}, absl::MakeSpan(theirs));
    if (theirs == op.fingerprints) hint = absl::StrCat(", by ", WordOf(other.family));
  }
  const auto place = differs.first - wanted.begin();
  Tell(shard, "fingerprints", absl::StrCat(*differs.second, hint),
       absl::StrCat(*differs.first, ", by ", WordOf(hash.family), " with ", hash.codes_per_table,
                    " codes, ", hash.num_tables, " tables and seed ", hash.seed,
                    " of `hidden` as it was sent (docs/understand/hashing.md)"),
       absl::StrCat("sample ", place / family->num_tables(), ", table ",
                    place % family->num_tables()));
}

void StepCheck::CheckLabels(int shard, const HeadForwardOp& op) {
  const RaggedSlice& wanted = batch_.labels[shard];
  if (op.label_offsets != wanted.offsets || op.labels != wanted.rows) {
    size_t sample = 0;
    const auto part = [&](absl::Span<const RowId> rows, absl::Span<const uint32_t> offsets) {
      return rows.subspan(offsets[sample], offsets[sample + 1] - offsets[sample]);
    };
    const size_t samples = std::min(op.label_offsets.size(), wanted.offsets.size()) - 1;
    while (sample + 1 < samples &&
           part(op.labels, op.label_offsets) == part(wanted.rows, wanted.offsets)) {
      ++sample;
    }
    Tell(shard, "labels", ListOf(part(op.labels, op.label_offsets)),
         absl::StrCat(ListOf(part(wanted.rows, wanted.offsets)), ", the labels of point ",
                      batch_.points[sample], " that this shard owns"),
         absl::StrCat("sample ", sample));
  }
  for (size_t i = 0; i < batch_.label_targets.size() && i < op.label_targets.size(); ++i) {
    if (Near(op.label_targets[i], batch_.label_targets[i], 2 * kRounding)) continue;
    Tell(shard, "label_targets", NumberOf(op.label_targets[i]),
         NumberOf(batch_.label_targets[i]) +
             (net_.network().head().head.loss == HeadLoss::kSigmoid
                  ? ", with the loss sigmoid"
                  : ": 1 / the number of the sample's labels over all shards"),
         absl::StrCat("sample ", i));
    break;
  }
}

void StepCheck::Check(int shard, const HeadForwardOp& op) {
  if (!Has(shard, 0) || !HasLayers(shard)) return;
  CheckHidden(shard, op.hidden);
  hidden_ = op.hidden;
  CheckFingerprints(shard, op);
  CheckLabels(shard, op);
}

void StepCheck::CheckRate(int shard, const TableSpec& table, const LearningRate& found) {
  const double wanted = LearningRateAt(table.optimizer, batch_.job_step);
  if (found.has_value() && Near(*found / wanted, 1.0, 1e-9)) return;
  Tell(shard, "learning_rate", found.has_value() ? NumberOf(*found) : "absent",
       absl::StrCat(NumberOf(wanted), ", that of the schedule at step ", batch_.job_step.value(),
                    " of the job"));
}

void StepCheck::Check(int shard, const HeadBackwardOp& op) {
  if (!Has(shard, 1)) return;
  if (!loss_.has_value()) {
    std::vector<const HeadForwardOutput*> parts;
    for (const HeadForwardOutput& part : heads_) parts.push_back(&part);
    auto combined =
        CombineLoss(net_.network().head().head.loss, parts, batch_.labels, batch_.label_targets);
    if (!combined.ok()) {
      Tell(shard, "log_partitions", std::string(combined.status().message()), "finite");
      return;
    }
    loss_ = *std::move(combined);
  }
  // In f64 but for the end: the rounding to f32, and that of another library's exp and log.
  std::vector<Interval> within;
  for (const float value : loss_->log_partitions) {
    const auto error = static_cast<float>(4 * kRounding * std::max(1.0f, std::abs(value)));
    within.push_back({value - error, value + error});
  }
  CheckWithin(shard, "log_partitions", op.log_partitions, within, {},
              within.empty() ? ": the loss sigmoid has none" : "");
  const float scale = 1.0f / static_cast<float>(batch_.samples());
  if (!Near(op.scale / scale, 1.0, 4 * kRounding)) {
    Tell(shard, "scale", NumberOf(op.scale), NumberOf(scale) + ", 1 / B");
  }
  CheckRate(shard, net_.network().head(), op.learning_rate);
}

bool StepCheck::Backward(int shard) {
  if (!Has(shard, 2)) return false;
  if (backward_) return true;
  Bounds gradient = SumBounds(hidden_gradients_);
  if (!forward_ || hidden_.size() != layers_.hidden().size() || gradient.size() != hidden_.size()) {
    return false;  // of another batch than this one: that was told
  }
  layers_.Backward(hidden_, std::move(gradient));
  backward_ = true;
  return true;
}

std::string StepCheck::WhyMasked() const {
  const double p = net_.spec().training.hidden_dropout;
  return p > 0 ? absl::StrCat(": times 1 / (1 - p) where a unit is not 0, p = ", p) : "";
}

void StepCheck::Check(int shard, const DenseScatterOp& op) {
  const std::optional<size_t> layer = LayerOf(shard, HiddenLayers::Kind::kScatter, op.table);
  if (!layer.has_value() || !Backward(shard)) return;
  CheckRate(shard, layers_.table(*layer), op.learning_rate);
  const absl::Span<const RowId> rows = layers_.RowsOf(*layer, shard);
  if (op.gradients.rows != rows) {
    Tell(shard, "gradients.row_ids", ListOf(op.gradients.rows),
         absl::StrCat(ListOf(rows), ", the rows of table \"", op.table,
                      "\" that this shard has answered to DenseGather"));
    return;
  }
  const auto in = static_cast<size_t>(layers_.table(*layer).dim);
  const DenseGradientBounds& all = layers_.gradients(*layer);
  DenseGradientBounds mine;
  for (const RowId row : rows) {
    const auto first = all.weights.begin() + static_cast<int64_t>(row.value() * in);
    mine.weights.insert(mine.weights.end(), first, first + static_cast<int64_t>(in));
    mine.biases.push_back(all.biases[row.value()]);
  }
  MayRoundBounds(net_.spec().activations, mine.weights);  // shards take both types
  const std::string of = absl::StrCat(" of table \"", op.table, "\"", WhyMasked());
  CheckWithin(shard, "gradients.values", op.gradients.values, mine.weights, rows,
              ": the sum over the samples of g times the layer's input," + of);
  CheckWithin(shard, "gradients.biases", op.gradients.biases, mine.biases, rows,
              ": the sum over the samples of g," + of);
}

void StepCheck::Check(int shard, const EmbedBackwardOp& op) {
  if (!Backward(shard)) return;
  Bounds wanted = layers_.embedding_gradient();
  RoundBounds(net_.spec().activations, wanted);
  bool masked = true;
  for (size_t i = 0; i < std::min(wanted.size(), op.gradient.size()); ++i) {
    const bool zero = wanted[i].low == 0 && wanted[i].high == 0;
    masked = masked && (!zero || op.gradient[i] == 0);
  }
  if (!masked) {
    Tell(shard, "gradient", "not 0 where hidden is 0",
         "0 there: max(x, 0) has no gradient where it is 0");
  } else {
    CheckWithin(shard, "gradient", op.gradient, wanted, {}, WhyMasked());
  }
  CheckRate(shard, net_.network().embedding(), op.learning_rate);
}

std::string StepCheck::Missing() const {
  for (size_t stage = 0; stage < kStages.size(); ++stage) {
    const uint32_t missing = all_shards_ & ~asked_[stage];
    if (missing != 0) return absl::StrCat(kStages[stage], " to shard ", std::countr_zero(missing));
  }
  for (int shard = 0; shard < static_cast<int>(batch_.inputs.size()); ++shard) {
    const std::optional<size_t> layer = layers_.FirstUnsent(shard);
    if (layer.has_value()) {
      return absl::StrCat("DenseScatter of table \"", layers_.table(*layer).name, "\" to shard ",
                          shard);
    }
  }
  return "an answer";
}

}  // namespace dslide::cli
