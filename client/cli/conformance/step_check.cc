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
// Half a unit in the last place of f32.
constexpr double kRounding = 0x1p-24;

template <typename Op>
constexpr int StageOf() {
  if constexpr (std::is_same_v<Op, EmbedForwardOp>) return 0;
  if constexpr (std::is_same_v<Op, HeadForwardOp>) return 1;
  if constexpr (std::is_same_v<Op, HeadBackwardOp>) return 2;
  if constexpr (std::is_same_v<Op, EmbedBackwardOp>) return 3;
  return -1;
}

float RoundedTo(ActivationType type, float value) {
  return type == ActivationType::kBf16 ? ToFloat(ToBFloat16(value)) : value;
}

// The upper half of the bits, without rounding.
float CutOff(float value) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) & 0xffff0000u);
}

// The sums of the shards' parts in shard order, with the bound of the error of n - 1 additions in
// f32 in any order: (n - 1) half units of the sum of the magnitudes. Rounded to the type
// afterwards.
struct Sums {
  std::vector<float> exact;
  std::vector<Interval> within;
};

Sums SumOf(absl::Span<const MatrixReply> parts, ActivationType type) {
  Sums sums;
  size_t size = parts.front().data.size();
  for (const MatrixReply& part : parts) size = std::min(size, part.data.size());
  for (size_t i = 0; i < size; ++i) {
    float sum = 0;
    double magnitude = 0;
    for (const MatrixReply& part : parts) {
      sum += part.data[i];
      magnitude += std::abs(double{part.data[i]});
    }
    const double error = static_cast<double>(parts.size() - 1) * kRounding * magnitude;
    sums.exact.push_back(sum);
    sums.within.push_back({RoundedTo(type, static_cast<float>(sum - error)),
                           RoundedTo(type, static_cast<float>(sum + error))});
  }
  return sums;
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
      hidden_gradients_(batch_.inputs.size()) {}

void StepCheck::Tell(int shard, std::string field, std::string found, std::string expected,
                     const std::string& where) {
  verdicts_.Add({.chapter = Chapter::kTraining,
                 .call = call_,
                 .where = absl::StrCat("model ", net_.spec().name, ", shard ", shard, ", step ",
                                       step_, where.empty() ? "" : ", ", where),
                 .field = std::move(field),
                 .found = std::move(found),
                 .expected = std::move(expected),
                 .section = "training"});
}

void StepCheck::Request(int shard, const StepOp& op) {
  std::visit(
      [&](const auto& operation) {
        constexpr int kStage = StageOf<std::decay_t<decltype(operation)>>();
        call_ = kStage < 0 ? "Step" : kStages[std::max(kStage, 0)];
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

void StepCheck::Answer(int shard, const ReplyBody& reply) {
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
}

bool StepCheck::Has(int shard, int stage) {
  if (answered_[stage] == all_shards_) return true;
  Tell(shard, "step", absl::StrCat("sent before every shard has answered ", kStages[stage]),
       absl::StrCat("sent when all ", batch_.inputs.size(), " have: it is made of their answers"));
  return false;
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
                      ", of whose features (and the bias row) this shard owns these"),
         absl::StrCat("sample ", i));
    return;
  }
  for (size_t i = 0; i < op.values.size(); ++i) {
    if (Near(op.values[i], wanted.values[i], 4 * kRounding)) continue;
    Tell(shard, "values", absl::StrCat(NumberOf(op.values[i]), " of row ", op.rows[i].value()),
         absl::StrCat(
             NumberOf(wanted.values[i]),
             ": v / sqrt(sum of v * v) over the sample's features, and 1 for the bias row"));
    return;
  }
}

void StepCheck::CheckWithin(int shard, const char* field, absl::Span<const float> found,
                            absl::Span<const Interval> wanted) {
  if (found.size() != wanted.size()) {
    Tell(shard, field, absl::StrCat(found.size(), " numbers"), absl::StrCat(wanted.size()));
    return;
  }
  const auto width = static_cast<int64_t>(found.size()) / batch_.samples();
  for (size_t i = 0; i < found.size(); ++i) {
    if (wanted[i].low <= found[i] && found[i] <= wanted[i].high) continue;
    const auto place = static_cast<int64_t>(i);
    const std::string range =
        wanted[i].low == wanted[i].high
            ? NumberOf(wanted[i].low)
            : absl::StrCat(NumberOf(wanted[i].low), " to ", NumberOf(wanted[i].high));
    Tell(shard, field, NumberOf(found[i]), range,
         absl::StrCat("sample ", place / width, ", column ", place % width));
    return;
  }
}

void StepCheck::CheckHidden(int shard, absl::Span<const float> found) {
  const ActivationType type = net_.spec().activations;
  const auto relu = [](float x) { return std::max(x, 0.0f); };
  Sums sums = SumOf(partials_, type);
  for (Interval& within : sums.within) within = {relu(within.low), relu(within.high)};
  // A cut instead of a rounding is off by a unit everywhere: it has a name.
  bool cut = type == ActivationType::kBf16 && found.size() == sums.exact.size();
  bool differs = false;
  for (size_t i = 0; cut && i < found.size(); ++i) {
    cut = found[i] == CutOff(relu(sums.exact[i]));
    differs = differs || found[i] != RoundedTo(type, relu(sums.exact[i]));
  }
  if (cut && differs) {
    Tell(shard, "hidden", "f32 whose lower 16 bits were cut off",
         "bf16 rounded to nearest, ties to even: (b + 0x7fff + ((b >> 16) & 1)) >> 16");
    return;
  }
  CheckWithin(shard, "hidden", found, sums.within);
}

void StepCheck::CheckFingerprints(int shard, const HeadForwardOp& op) {
  const HashFamily* const family = net_.network().hash_family();
  if (family == nullptr) return;
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
             ": 1 / the number of the sample's labels over all shards",
         absl::StrCat("sample ", i));
    break;
  }
}

void StepCheck::Check(int shard, const HeadForwardOp& op) {
  if (!Has(shard, 0)) return;
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
    auto combined = CombineLoss(HeadLoss::kSoftmax, parts, batch_.labels, batch_.label_targets);
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
  CheckWithin(shard, "log_partitions", op.log_partitions, within);
  const float scale = 1.0f / static_cast<float>(batch_.samples());
  if (!Near(op.scale / scale, 1.0, 4 * kRounding)) {
    Tell(shard, "scale", NumberOf(op.scale), NumberOf(scale) + ", 1 / B");
  }
  CheckRate(shard, net_.network().head(), op.learning_rate);
}

void StepCheck::Check(int shard, const EmbedBackwardOp& op) {
  if (!Has(shard, 2)) return;
  Sums sums = SumOf(hidden_gradients_, net_.spec().activations);
  bool masked = true;
  const size_t size = std::min({sums.within.size(), op.gradient.size(), hidden_.size()});
  for (size_t i = 0; i < size; ++i) {
    if (hidden_[i] > 0) continue;
    sums.within[i] = {0, 0};
    masked = masked && op.gradient[i] == 0;
  }
  if (!masked) {
    Tell(shard, "gradient", "not 0 where hidden is 0",
         "0 there: max(x, 0) has no gradient where it is 0");
  } else {
    CheckWithin(shard, "gradient", op.gradient, sums.within);
  }
  CheckRate(shard, net_.network().embedding(), op.learning_rate);
}

std::string StepCheck::Missing() const {
  for (size_t stage = 0; stage < kStages.size(); ++stage) {
    const uint32_t missing = all_shards_ & ~asked_[stage];
    if (missing != 0) return absl::StrCat(kStages[stage], " to shard ", std::countr_zero(missing));
  }
  return "an answer";
}

}  // namespace dslide::cli
