// Prints what clients in other languages must compute, bit for bit, as C++ computes it.
//
//   dslide_client_vectors
//
// stdout: sections of one JSON line, {"section", "settings", "arrays": [[name, type, shape] ...]},
// and the arrays' little-endian bytes behind it, in that order. Inputs stand beside outputs and
// follow from one seed. Numbers of "seed" have 64 bits: read them as such. The tests of the
// packages in client/ read it.

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/trainer/softmax_combine.h"
#include "core/base/bfloat16.h"
#include "core/base/counter_rng.h"
#include "core/engine/data/epoch_order.h"
#include "core/engine/lsh/hash_family.h"
#include "core/engine/rows/row_init.h"
#include "core/partition/slot_map.h"
#include "core/spec/model_spec_json.h"
#include "core/wire/arrays/sample_ids.h"
#include "core/wire/model_spec_codec.h"
#include "tests/clients/message_vectors.h"
#include "tests/clients/vector_section.h"

namespace dslide {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kSeed = 20261126;
constexpr int64_t kCases = 10'000;

using Section = VectorSection;

int64_t Between(CounterRng& rng, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(rng.NextBelow(static_cast<uint64_t>(high - low + 1)));
}

// Vectors as a layer behind a ReLU gives them: a part is 0, of some all.
std::vector<float> HiddenVectors(CounterRng& rng, int64_t count, int64_t dim) {
  std::vector<float> hidden;
  for (int64_t i = 0; i < count; ++i) {
    const float zeros = rng.NextBelow(20) == 0 ? 1.0f : rng.NextUniform();
    for (int64_t c = 0; c < dim; ++c) {
      const float value = 4.0f * rng.NextUniform() - 2.0f;
      hidden.push_back(rng.NextUniform() < zeros ? 0.0f : value);
    }
  }
  return hidden;
}

bool PrintFingerprints(HashFamilyKind kind, CounterRng& rng) {
  constexpr int64_t kQueries = 250;
  const bool dwta = kind == HashFamilyKind::kDwta;
  for (int64_t done = 0; done < kCases; done += kQueries) {
    HashSpec spec;
    spec.family = kind;
    spec.bin_size = int64_t{1} << Between(rng, 1, 6);
    const int64_t bits = dwta ? std::bit_width(static_cast<uint64_t>(spec.bin_size)) - 1 : 1;
    spec.codes_per_table = Between(rng, 1, 24 / bits);
    spec.num_tables = Between(rng, 1, 40);
    spec.seed = rng.NextBits();
    const int64_t dim = Between(rng, 1, 300);
    const auto family = HashFamily::Create(spec, dim);
    if (!family.ok()) {
      std::cerr << family.status() << '\n';
      return false;
    }
    const std::vector<float> hidden = HiddenVectors(rng, kQueries, dim);
    std::vector<uint32_t> fingerprints(static_cast<size_t>(kQueries * spec.num_tables));
    (*family)->HashQueries(hidden, kQueries, Parallelism{1}, absl::MakeSpan(fingerprints));
    Section section("fingerprints", {{"family", dwta ? "dwta" : "simhash"},
                                     {"codes_per_table", spec.codes_per_table},
                                     {"num_tables", spec.num_tables},
                                     {"bin_size", spec.bin_size},
                                     {"seed", spec.seed}});
    section.Add("hidden", "<f4", {kQueries, dim}, hidden);
    section.Add("fingerprints", "<u4", {kQueries, spec.num_tables}, fingerprints);
    section.Print();
  }
  return true;
}

void PrintFirstRows(CounterRng& rng) {
  constexpr int64_t kRows = 100;
  for (int64_t done = 0; done < kCases; done += kRows) {
    TableSpec table;
    table.name = absl::StrCat("table-", rng.NextBelow(1000));
    table.dim = Between(rng, 1, 200);
    table.init.kind = rng.NextBelow(4) == 0 ? InitKind::kUniform : InitKind::kGaussian;
    table.init.scale = rng.NextBelow(2) == 0 ? 0.0 : static_cast<double>(rng.NextUniform()) + 0.01;
    const uint64_t seed = rng.NextBits();
    const RowInit init(table, seed);
    std::vector<uint32_t> rows;
    std::vector<float> values(static_cast<size_t>(kRows * table.dim));
    for (int64_t i = 0; i < kRows; ++i) {
      rows.push_back(static_cast<uint32_t>(rng.NextBelow(uint64_t{1} << 31)));
      init.Fill(RowId(rows.back()), absl::MakeSpan(values).subspan(i * table.dim, table.dim));
    }
    Section section("first_rows",
                    {{"table", table.name},
                     {"dim", table.dim},
                     {"kind", table.init.kind == InitKind::kUniform ? "uniform" : "gaussian"},
                     {"scale", table.init.scale},
                     {"seed", seed}});
    section.Add("rows", "<u4", {kRows}, rows);
    section.Add("values", "<f4", {kRows, table.dim}, values);
    section.Print();
  }
}

void PrintRoundings(CounterRng& rng) {
  std::vector<uint32_t> bits;
  std::vector<uint16_t> halves;
  for (int64_t i = 0; i < kCases; ++i) {
    uint32_t word = static_cast<uint32_t>(rng.NextBits());
    if (i % 4 == 0) word = (word & 0xffff0000u) | 0x8000u;  // a tie
    if (i % 50 == 0) word |= 0x7f800000u;                   // an infinity or no number
    bits.push_back(word);
    halves.push_back(ToBFloat16(std::bit_cast<float>(word)).bits);
  }
  Section section("bf16", Json::object());
  section.Add("bits", "<u4", {kCases}, bits);
  section.Add("halves", "<u2", {kCases}, halves);
  section.Print();
}

void PrintPackedIds(CounterRng& rng) {
  std::vector<int64_t> samples;
  std::vector<uint32_t> all_offsets;
  std::vector<uint32_t> all_rows;
  std::vector<int64_t> sizes;
  std::vector<uint8_t> bytes;
  for (int64_t i = 0; i < kCases; ++i) {
    const int64_t batch = Between(rng, 1, 6);
    std::vector<uint32_t> offsets = {0};
    std::vector<RowId> rows;
    for (int64_t s = 0; s < batch; ++s) {
      const uint64_t gap = uint64_t{1} << Between(rng, 0, 28);
      uint64_t next = rng.NextBelow(gap);
      for (uint64_t n = rng.NextBelow(9); n > 0 && next < (uint64_t{1} << 31); --n) {
        rows.emplace_back(static_cast<uint32_t>(next));
        next += 1 + rng.NextBelow(gap);
      }
      offsets.push_back(static_cast<uint32_t>(rows.size()));
    }
    std::string packed;
    wire::EncodePackedIds(offsets, rows, &packed);
    samples.push_back(batch);
    all_offsets.insert(all_offsets.end(), offsets.begin(), offsets.end());
    for (const RowId row : rows) all_rows.push_back(row.value());
    sizes.push_back(static_cast<int64_t>(packed.size()));
    bytes.insert(bytes.end(), packed.begin(), packed.end());
  }
  Section section("packed_ids", Json::object());
  section.Add("samples", "<i8", {kCases}, samples);
  section.Add("offsets", "<u4", {static_cast<int64_t>(all_offsets.size())}, all_offsets);
  section.Add("rows", "<u4", {static_cast<int64_t>(all_rows.size())}, all_rows);
  section.Add("sizes", "<i8", {kCases}, sizes);
  section.Add("bytes", "<u1", {static_cast<int64_t>(bytes.size())}, bytes);
  section.Print();
}

void PrintOrders(CounterRng& rng) {
  for (int64_t done = 0; done < kCases;) {
    const int64_t points = Between(rng, 1, 400);
    const uint64_t seed = rng.NextBits();
    const int64_t epoch = Between(rng, 0, 50);
    const double fraction = 0.5 * static_cast<double>(rng.NextUniform());
    const auto split = TrainingSplit::Create(points, seed, fraction, Between(rng, 0, 60));
    std::vector<int64_t> order;
    std::vector<int64_t> validation;
    const EpochOrder epoch_order(split->num_training(), seed, epoch);
    for (int64_t i = 0; i < split->num_training(); ++i) {
      order.push_back(split->TrainingPoint(epoch_order.PointAt(i)));
    }
    for (int64_t i = 0; i < split->num_validation(); ++i) {
      validation.push_back(split->ValidationPoint(i));
    }
    Section section("order", {{"points", points},
                              {"seed", seed},
                              {"epoch", epoch},
                              {"fraction", fraction},
                              {"max_validation", split->num_validation()}});
    section.Add("order", "<i8", {split->num_training()}, order);
    section.Add("validation", "<i8", {split->num_validation()}, validation);
    section.Print();
    done += points;
  }
}

// Who owns rows, where the shards have several capacities: a cluster map says the owners of slots.
bool PrintOwners(CounterRng& rng) {
  constexpr int64_t kRows = 500;
  for (int64_t done = 0; done < kCases; done += kRows) {
    const int64_t num_slots = Between(rng, 16, 2000);
    std::vector<double> weights;
    for (int64_t s = Between(rng, 1, 8); s > 0; --s) weights.push_back(0.5 + rng.NextUniform());
    const auto map = SlotMap::Deal(num_slots, weights);
    if (!map.ok()) {
      std::cerr << map.status() << '\n';
      return false;
    }
    std::vector<uint16_t> owners;
    for (const ShardId owner : map->owners()) {
      owners.push_back(static_cast<uint16_t>(owner.value()));
    }
    std::vector<uint32_t> rows;
    std::vector<uint16_t> shards;
    for (int64_t i = 0; i < kRows; ++i) {
      rows.push_back(static_cast<uint32_t>(rng.NextBelow(uint64_t{1} << 31)));
      shards.push_back(static_cast<uint16_t>(map->OwnerOf(RowId(rows.back())).value()));
    }
    Section section("owners", {{"shards", map->num_shards()}});
    section.Add("owners", "<u2", {num_slots}, owners);
    section.Add("rows", "<u4", {kRows}, rows);
    section.Add("shard_of_row", "<u2", {kRows}, shards);
    section.Print();
  }
  return true;
}

// Parts of a loss as shards answer them, some of them without rows for a sample.
bool PrintLosses(HeadLoss loss, CounterRng& rng) {
  constexpr int64_t kBatch = 100;
  const bool softmax = loss == HeadLoss::kSoftmax;
  for (int64_t done = 0; done < kCases; done += kBatch) {
    const int64_t num_shards = Between(rng, 1, 5);
    std::vector<float> highest, sums, logits, targets(kBatch, 1.0f);
    std::vector<uint32_t> offsets;
    std::vector<int64_t> labels(kBatch, 0);
    std::vector<HeadForwardOutput> parts(static_cast<size_t>(num_shards));
    std::vector<RaggedSlice> slices(parts.size());
    std::vector<const HeadForwardOutput*> pointers;
    for (size_t s = 0; s < parts.size(); ++s) {
      slices[s].offsets = {0};
      for (int64_t i = 0; i < kBatch; ++i) {
        const bool empty = softmax && s > 0 && rng.NextBelow(8) == 0;
        parts[s].max_logits.push_back(!softmax ? 0.0f
                                      : empty  ? -std::numeric_limits<float>::infinity()
                                               : 60.0f * rng.NextUniform() - 30.0f);
        parts[s].exp_sums.push_back(empty ? 0.0f : 1.0f + 1000.0f * rng.NextUniform());
        for (uint64_t n = empty ? 0 : rng.NextBelow(3); n > 0; --n) {
          slices[s].rows.emplace_back(static_cast<uint32_t>(n));
          parts[s].label_logits.push_back(40.0f * rng.NextUniform() - 20.0f);
          ++labels[static_cast<size_t>(i)];
        }
        slices[s].offsets.push_back(static_cast<uint32_t>(slices[s].rows.size()));
      }
      highest.insert(highest.end(), parts[s].max_logits.begin(), parts[s].max_logits.end());
      sums.insert(sums.end(), parts[s].exp_sums.begin(), parts[s].exp_sums.end());
      logits.insert(logits.end(), parts[s].label_logits.begin(), parts[s].label_logits.end());
      offsets.insert(offsets.end(), slices[s].offsets.begin(), slices[s].offsets.end());
      pointers.push_back(&parts[s]);
    }
    for (size_t i = 0; softmax && i < targets.size(); ++i) {
      targets[i] = labels[i] > 0 ? 1.0f / static_cast<float>(labels[i]) : 0.0f;
    }
    const auto combined = CombineLoss(loss, pointers, slices, targets);
    if (!combined.ok()) {
      std::cerr << combined.status() << '\n';
      return false;
    }
    const auto partitions = static_cast<int64_t>(combined->log_partitions.size());
    Section section("loss", {{"loss", softmax ? "softmax" : "sigmoid"}});
    section.Add("max_logits", "<f4", {num_shards, kBatch}, highest);
    section.Add("exp_sums", "<f4", {num_shards, kBatch}, sums);
    section.Add("label_offsets", "<u4", {num_shards, kBatch + 1}, offsets);
    section.Add("label_logits", "<f4", {static_cast<int64_t>(logits.size())}, logits);
    section.Add("targets", "<f4", {kBatch}, targets);
    section.Add("log_partitions", "<f4", {partitions}, combined->log_partitions);
    section.Add("loss_sum", "<f8", {1}, std::vector<double>{combined->loss_sum});
    section.Print();
  }
  return true;
}

// Protobuf's JSON form of the message that this client sends.
Json MessageJson(const ModelSpec& spec) {
  v1::ModelSpec message;
  wire::EncodeModelSpec(spec, &message);
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string text;
  const auto printed = google::protobuf::util::MessageToJsonString(message, &text, options);
  return printed.ok() ? Json::parse(text) : Json(printed.ToString());
}

// A table of each role with every default.
void PrintDefaultSpec() {
  ModelSpec spec;
  spec.name = "model";
  for (const auto& [name, role] : {std::pair{"input", TableRole::kEmbedding},
                                   {"hidden", TableRole::kDense},
                                   {"labels", TableRole::kHead},
                                   {"memory", TableRole::kMemory},
                                   {"trees", TableRole::kLabelTrees},
                                   {"linear", TableRole::kLinear},
                                   {"fusion", TableRole::kFusion}}) {
    TableSpec table;
    table.name = name;
    table.role = role;
    spec.tables.push_back(table);
  }
  Section("default_spec", MessageJson(spec)).Print();
}

// What the shipped specs say.
bool PrintSpecs() {
  for (const auto& entry : std::filesystem::directory_iterator(DSLIDE_SOURCE_DIR "/docs/models")) {
    if (entry.path().extension() != ".json") continue;
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    const std::string name = entry.path().filename().string();
    const auto spec = ModelSpecFromJson(text, name);
    if (!spec.ok()) {
      std::cerr << spec.status() << '\n';
      return false;
    }
    Section("spec", {{"file", name}, {"spec", MessageJson(*spec)}}).Print();
  }
  return true;
}

int Run() {
  CounterRng rng(kSeed);
  if (!PrintFingerprints(HashFamilyKind::kSimHash, rng)) return 1;
  if (!PrintFingerprints(HashFamilyKind::kDwta, rng)) return 1;
  PrintFirstRows(rng);
  PrintRoundings(rng);
  PrintPackedIds(rng);
  PrintOrders(rng);
  if (!PrintOwners(rng)) return 1;
  if (!PrintLosses(HeadLoss::kSoftmax, rng)) return 1;
  if (!PrintLosses(HeadLoss::kSigmoid, rng)) return 1;
  PrintDefaultSpec();
  if (!PrintSpecs()) return 1;
  if (!PrintMessages()) return 1;
  std::cout.flush();
  return std::cout.good() ? 0 : 1;
}

}  // namespace
}  // namespace dslide

int main() { return dslide::Run(); }
