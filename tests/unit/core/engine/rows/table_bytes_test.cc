#include "core/engine/rows/table_bytes.h"

#include <malloc.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "core/engine/model/embedding_table.h"
#include "core/engine/model/head_table.h"
#include "core/engine/rows/record_store.h"
#include "gtest/gtest.h"
#include "tests/unit/core/base/sanitized.h"

namespace dslide {
namespace {

constexpr RowPrecision kPrecisions[] = {RowPrecision::kF32, RowPrecision::kBf16Weights,
                                        RowPrecision::kBf16};
constexpr OptimizerKind kKinds[] = {OptimizerKind::kSgd, OptimizerKind::kRowWiseAdagrad,
                                    OptimizerKind::kAdagrad, OptimizerKind::kAdam};

TableSpec Spec(TableRole role, int64_t rows, int64_t dim, OptimizerKind kind,
               RowPrecision precision) {
  TableSpec spec;
  spec.name = "table";
  spec.role = role;
  spec.rows = rows;
  spec.dim = dim;
  spec.optimizer.kind = kind;
  spec.precision = precision;
  return spec;
}

ShardRows Part(const TableSpec& spec, int32_t shard = 0, int64_t shards = 1) {
  return {*SlotMap::Deal(spec.num_slots, std::vector<double>(shards, 1.0)), ShardId(shard),
          spec.rows};
}

// The table of docs/operate/sizing.md: bytes of a head's or dense row of 128 and of 100 numbers.
TEST(TableBytesTest, RowsHaveTheDocumentedSizes) {
  const int64_t documented[3][4] = {
      // SGD, row-wise Adagrad, Adagrad, Adam
      {576, 576, 1088, 1600},
      {320, 320, 832, 1344},
      {320, 320, 576, 832},
  };
  for (int p = 0; p < 3; ++p) {
    for (int k = 0; k < 4; ++k) {
      const TableSpec spec = Spec(TableRole::kHead, 10, 128, kKinds[k], kPrecisions[p]);
      EXPECT_EQ(RowLayout::Of(spec).record_bytes, documented[p][k]) << p << " " << k;
      EXPECT_EQ(TableBytesFor(spec, 10).rows(), 10 * documented[p][k]);
      // An average is one state vector more.
      TableSpec averaged = spec;
      averaged.optimizer.average_decay = 0.99;
      const int64_t vector = kPrecisions[p] == RowPrecision::kBf16 ? 256 : 512;
      EXPECT_EQ(RowLayout::Of(averaged).record_bytes, documented[p][k] + vector);
    }
  }
}

TEST(TableBytesTest, EqualsTheMemoryOfRealTables) {
  for (const RowPrecision precision : kPrecisions) {
    for (const OptimizerKind kind : kKinds) {
      for (const int64_t dim : {1, 33, 100}) {
        for (const int64_t rows : {1, 1500, 70000}) {
          if (dim > 1 && rows > 2000) continue;
          const TableSpec input = Spec(TableRole::kEmbedding, rows, dim, kind, precision);
          const auto embedding = EmbeddingTable::Create(input, 1, Part(input), Parallelism{1});
          EXPECT_EQ(TableBytesFor(input, rows).total(), (*embedding)->store().memory_bytes());
          TableSpec output = Spec(TableRole::kHead, rows, dim, kind, precision);
          if (dim == 33) output.optimizer.average_decay = 0.5;
          const auto head = HeadTable::Create(output, 1, Part(output, 1, 3), Parallelism{1});
          const int64_t held = (*head)->store().num_rows();
          EXPECT_EQ(TableBytesFor(output, held).total(), (*head)->memory_bytes()) << held;
        }
      }
    }
  }
}

TEST(TableBytesTest, HashSettingsCount) {
  TableSpec spec = Spec(TableRole::kHead, 5000, 8, OptimizerKind::kSgd, RowPrecision::kF32);
  for (const HashFamilyKind family : {HashFamilyKind::kSimHash, HashFamilyKind::kDwta}) {
    for (const int64_t codes : {0, 1, 5, 8}) {
      for (const int64_t tables : {1, 7, 50}) {
        spec.head.hash.family = family;
        spec.head.hash.codes_per_table = codes;
        spec.head.hash.num_tables = tables;
        for (const int64_t ranked : {0, 3}) {
          spec.head.hash.ranked_per_active = ranked;
          spec.head.hash.searched_tables = ranked == 3 ? (tables + 1) / 2 : 0;
          const auto head = HeadTable::Create(spec, 1, Part(spec), Parallelism{1});
          ASSERT_TRUE(head.ok()) << head.status();
          EXPECT_EQ(TableBytesFor(spec, 5000).total(), (*head)->memory_bytes())
              << codes << " codes, " << tables << " tables, " << ranked << " ranked";
        }
      }
    }
  }
  spec.head.max_active = 0;
  const TableBytes exact = TableBytesFor(spec, 5000);
  EXPECT_EQ(exact.hash_tables + exact.hash_codes, 0);
  EXPECT_EQ(WorkingBytesFor(spec, 5000, 4), 0);
}

// Sanitizers keep shadow memory.
#if !DSLIDE_SANITIZED
int64_t ResidentBytes() {
  int64_t pages = 0;
  int64_t resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// About 200 MB, in which the allocator's and the page tables' share is small.
TEST(TableBytesTest, ResidentMemoryGrowsByWhatIsSaid) {
  const TableSpec spec =
      Spec(TableRole::kHead, 180'000, 96, OptimizerKind::kAdagrad, RowPrecision::kBf16Weights);
  const int64_t before = ResidentBytes();
  const auto head = HeadTable::Create(spec, 1, Part(spec), Parallelism{1});
  ASSERT_TRUE(head.ok()) << head.status();
  const auto grown = static_cast<double>(ResidentBytes() - before);
  const auto said = static_cast<double>(TableBytesFor(spec, 180'000).total());
  EXPECT_GT(said, 100e6);
  EXPECT_NEAR(grown, said, 0.05 * said);
}

// Of many small pieces, which may lie where others were freed: so what is resident says nothing.
int64_t AllocatedBytes() {
  const struct mallinfo2 heap = mallinfo2();
  return static_cast<int64_t>(heap.uordblks + heap.hblkhd);
}

TEST(TableBytesTest, TheHeapGrowsByWhatATableOfRecordsSays) {
  TableSpec spec;
  spec.role = TableRole::kMemory;
  spec.rows = 100'000;
  const int64_t before = AllocatedBytes();
  RecordStore records(spec, ShardRows::All(spec.rows));
  EXPECT_EQ(TableBytesFor(spec, spec.rows).total(), records.memory_bytes());
  const std::string record(300, 'x');
  for (uint32_t row = 0; row < spec.rows; ++row) {
    records.Put(LocalRow(row), absl::MakeConstSpan(record).first(1 + row % 300));
  }
  const auto grown = static_cast<double>(AllocatedBytes() - before);
  const auto said = static_cast<double>(records.memory_bytes());
  EXPECT_GT(said, 16e6);
  // A byte a row tells which have changed, as in every table.
  EXPECT_NEAR(grown, said + 1e5, 0.01 * said);
}
#endif

}  // namespace
}  // namespace dslide
