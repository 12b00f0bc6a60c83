// Counting equal codes in packed words, against counting them one by one.

#include "core/engine/lsh/row_codes.h"

#include <vector>

#include "core/base/counter_rng.h"
#include "core/base/ids.h"
#include "gtest/gtest.h"
#include "tests/reference/lsh_reference.h"

namespace dslide {
namespace {

struct CodesShape {
  int64_t num_tables;
  int64_t codes_per_table;
  int64_t bits_per_code;
};

class RowCodesTest : public ::testing::TestWithParam<CodesShape> {
 protected:
  // Codes are drawn from few values, so that equal ones are frequent.
  std::vector<uint32_t> RandomFingerprints(CounterRng& rng) const {
    const CodesShape& shape = GetParam();
    std::vector<uint32_t> fingerprints(shape.num_tables, 0);
    const uint64_t radix = uint64_t{1} << shape.bits_per_code;
    for (uint32_t& fingerprint : fingerprints) {
      for (int64_t k = 0; k < shape.codes_per_table; ++k) {
        const uint64_t code = rng.NextBelow(2) == 0 ? radix - 1 : rng.NextBelow(radix);
        fingerprint |= static_cast<uint32_t>(code << (k * shape.bits_per_code));
      }
    }
    return fingerprints;
  }

  int64_t CountOneByOne(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b) const {
    const CodesShape& shape = GetParam();
    const uint32_t mask = (uint32_t{1} << shape.bits_per_code) - 1;
    int64_t equal = 0;
    for (size_t t = 0; t < a.size(); ++t) {
      for (int64_t k = 0; k < shape.codes_per_table; ++k) {
        const int64_t shift = k * shape.bits_per_code;
        equal += ((a[t] >> shift) & mask) == ((b[t] >> shift) & mask) ? 1 : 0;
      }
    }
    return equal;
  }
};

std::vector<LocalRow> AllBut(int64_t count, int64_t missing) {
  std::vector<LocalRow> rows;
  for (int64_t row = 0; row < count; ++row) {
    if (row != missing) rows.emplace_back(static_cast<uint32_t>(row));
  }
  return rows;
}

TEST_P(RowCodesTest, CountsWhatOneByOneCounts) {
  constexpr int64_t kRows = 60;
  const CodesShape& shape = GetParam();
  RowCodes codes;
  codes.Reset(shape.num_tables, shape.codes_per_table, shape.bits_per_code, kRows);
  EXPECT_EQ(codes.num_codes(), shape.num_tables * shape.codes_per_table);
  CounterRng rng(1);
  std::vector<std::vector<uint32_t>> rows;
  for (int64_t row = 0; row < kRows; ++row) {
    rows.push_back(RandomFingerprints(rng));
    codes.Set(row, rows.back().data());
  }
  std::vector<uint64_t> packed(codes.words_per_row());
  for (int q = 0; q < 20; ++q) {
    const std::vector<uint32_t> query = RandomFingerprints(rng);
    codes.Pack(query.data(), packed.data());
    const std::vector<LocalRow> wanted = AllBut(kRows, q);
    std::vector<uint16_t> equal(kRows, 9999);
    codes.CountEqual(wanted, packed.data(), equal.data());
    for (size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_EQ(equal[i], CountOneByOne(rows[wanted[i].value()], query));
    }
    EXPECT_EQ(equal[wanted.size()], 9999) << "written beyond the rows";
  }
}

TEST_P(RowCodesTest, GivesFingerprintsBack) {
  const CodesShape& shape = GetParam();
  RowCodes codes;
  codes.Reset(shape.num_tables, shape.codes_per_table, shape.bits_per_code, 5);
  CounterRng rng(3);
  std::vector<std::vector<uint32_t>> rows;
  for (int64_t row = 0; row < 5; ++row) {
    rows.push_back(RandomFingerprints(rng));
    codes.Set(row, rows.back().data());
  }
  for (int64_t row = 0; row < 5; ++row) {
    for (int64_t t = 0; t < shape.num_tables; ++t) {
      EXPECT_EQ(codes.Fingerprints(t)[row], rows[row][t]) << "row " << row << " table " << t;
    }
  }
}

TEST_P(RowCodesTest, BitsBeyondAFingerprintAreIgnored) {
  const CodesShape& shape = GetParam();
  const int64_t bits = shape.codes_per_table * shape.bits_per_code;
  RowCodes codes;
  codes.Reset(shape.num_tables, shape.codes_per_table, shape.bits_per_code, 1);
  CounterRng rng(2);
  std::vector<uint32_t> query = RandomFingerprints(rng);
  codes.Set(0, query.data());
  for (uint32_t& fingerprint : query) fingerprint |= uint32_t{1} << bits;
  std::vector<uint64_t> packed(codes.words_per_row());
  codes.Pack(query.data(), packed.data());
  uint16_t equal = 0;
  codes.CountEqual({LocalRow(0)}, packed.data(), &equal);
  EXPECT_EQ(equal, codes.num_codes());
}

TEST_P(RowCodesTest, SketchesAreTheBitsAfterTheTablesOwn) {
  const CodesShape& shape = GetParam();
  RowCodes codes;
  codes.Reset(shape.num_tables, shape.codes_per_table, shape.bits_per_code, 2);
  HashSpec spec;
  spec.codes_per_table = shape.codes_per_table;
  if (shape.bits_per_code > 1) spec.family = HashFamilyKind::kDwta;
  spec.bin_size = int64_t{1} << shape.bits_per_code;
  spec.num_tables = shape.num_tables;
  CounterRng rng(5);
  const std::vector<uint32_t> fingerprints = RandomFingerprints(rng);
  codes.Set(1, fingerprints.data());
  std::vector<uint64_t> query(codes.words_per_row());
  codes.Pack(fingerprints.data(), query.data());
  for (int64_t t = 0; t < shape.num_tables; ++t) {
    uint64_t expected = 0;
    const std::vector<bool> bits = reference::Sketch(spec, fingerprints, t);
    for (size_t i = 0; i < bits.size(); ++i) expected |= uint64_t{bits[i]} << i;
    EXPECT_EQ(codes.SketchFor(t)(codes.WordsOf(LocalRow(1))), expected) << "table " << t;
    EXPECT_EQ(codes.SketchFor(t)(query.data()), expected) << "table " << t;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, RowCodesTest,
                         ::testing::Values(CodesShape{1, 1, 1}, CodesShape{24, 8, 1},
                                           CodesShape{50, 9, 1}, CodesShape{7, 24, 1},
                                           CodesShape{256, 4, 1}, CodesShape{9, 2, 2},
                                           CodesShape{13, 5, 3}, CodesShape{5, 3, 8}));

}  // namespace
}  // namespace dslide
