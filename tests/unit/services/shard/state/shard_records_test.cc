// Tables of records on a shard: in images, checkpoints and increments as rows of floats are, and
// refused where an operation wants floats.

#include <gmock/gmock.h>

#include <functional>
#include <map>
#include <tuple>

#include "absl/synchronization/notification.h"
#include "core/net/metrics/metrics.h"
#include "core/protocol/reason_words.h"
#include "services/shard/image/checkpoint_images.h"
#include "services/shard/image/image_store.h"
#include "services/shard/image/model_checkpoints.h"
#include "services/shard/image/shard_snapshot.h"
#include "services/shard/metrics/table_gauges.h"
#include "services/shard/state/core_state.h"
#include "services/shard/storage/storage_database.h"
#include "tests/unit/services/shard/log/log_samples.h"
#include "tests/unit/services/shard/state/record_samples.h"
#include "tests/unit/services/shard/state/shard_trainer.h"

namespace dslide::shard {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// By (table, global row).
using AllRecords = std::map<std::pair<size_t, uint32_t>, std::string>;

AllRecords RecordsOf(const ShardCore& core) {
  AllRecords all;
  const auto& model = core.models().at("m");
  for (size_t t = kFirstRecordTable; t < model->tables().size(); ++t) {
    const RecordStore& records = *model->tables()[t].records;
    for (uint32_t row = 0; row < records.num_rows(); ++row) {
      const absl::Span<const char> record = records.Record(LocalRow(row));
      if (record.empty()) continue;
      all[{t, records.rows().ToGlobal(LocalRow(row)).value()}] =
          std::string(record.begin(), record.end());
    }
  }
  return all;
}

class ShardRecordsTest : public LogDirectoryTest {
 protected:
  void SetUp() override {
    LogDirectoryTest::SetUp();
    auto opened = ImageStore::Open(Path("images"));
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = *std::move(opened);
    images_ = std::make_unique<CheckpointImages>(store_.get(), &SteadyClock());
    ASSERT_TRUE(
        core_->Apply(SetOwnershipCommand{.shard = ShardId(0), .generation = 7}).reply->status.ok());
    const Answer created = core_->Apply(SampleCreate(SampleRecordSpec()));
    ASSERT_TRUE(created.reply->status.ok()) << created.reply->status;
    ASSERT_TRUE(core_->Apply(trainer_.Hello()).reply->status.ok());
    Change(900);
  }

  ShardModel& Model() { return *core_->FindModel("m"); }
  // Puts and erases records of all tables, an update of each.
  void Change(int changes) {
    for (int i = 0; i < changes; ++i) {
      const size_t t = kFirstRecordTable + rng_.NextBelow(4);
      RecordStore& records = *Model().tables()[t].records;
      const LocalRow row(static_cast<uint32_t>(rng_.NextBelow(records.num_rows())));
      const bool erase = rng_.NextBelow(4) == 0;
      records.Put(row, erase ? std::string() : SampleRecord(t, row, rng_));
    }
    for (size_t t = kFirstRecordTable; t < Model().tables().size(); ++t) {
      Model().tables()[t].AdvanceStep({.threads = 1});
    }
  }
  // The part of a cluster checkpoint: cuts now, has `meanwhile` done, and writes.
  CheckpointProgress WritePart(uint64_t checkpoint_id, uint64_t base,
                               const std::function<void()>& meanwhile = {}) {
    core_->SettleTables();
    at_cut_[checkpoint_id] = {RecordsOf(*core_), core_->Digest()};
    PartBase on{.checkpoint_id = base};
    if (base != 0) on.files_checksum = images_->Progress(base).files.checksum;
    std::shared_ptr<ShardSnapshot> snapshot = ShardSnapshot::TakeCut(0, *core_, checkpoint_id, on);
    if (meanwhile) meanwhile();
    absl::Notification over;
    const absl::Status begun = images_->Begin(checkpoint_id, std::move(snapshot),
                                              [&](const std::shared_ptr<ShardSnapshot>& written) {
                                                written->Release();
                                                over.Notify();
                                              });
    EXPECT_TRUE(begun.ok()) << begun;
    over.WaitForNotification();
    while (images_->busy()) absl::SleepFor(absl::Milliseconds(1));
    return images_->Progress(checkpoint_id);
  }
  void ExpectLoads(uint64_t checkpoint_id) {
    const auto inspected = InspectImage(images_->PathOf(checkpoint_id));
    ASSERT_TRUE(inspected.ok()) << inspected.status();
    ShardCore loaded(SampleOptions());
    const absl::Status status = images_->Load(checkpoint_id, loaded).status();
    ASSERT_TRUE(status.ok()) << status;
    const auto& [records, digest] = at_cut_[checkpoint_id];
    EXPECT_EQ(RecordsOf(loaded), records) << "checkpoint_id " << checkpoint_id;
    EXPECT_EQ(loaded.Digest(), digest) << "checkpoint_id " << checkpoint_id;
    int64_t rows = 0;
    for (const ShardTable& table : loaded.FindModel("m")->tables())
      rows += table.stored().present();
    EXPECT_EQ(inspected->rows, rows);
  }
  // Writes one database of rows anew, as `change` leaves them.
  using Rows = std::map<std::pair<size_t, uint32_t>, std::string>;
  static void Rewrite(const std::string& directory, const std::function<void(Rows&)>& change) {
    const std::string fresh = directory + ".fresh";
    {
      auto reader = RowDatabaseReader::Open({directory});
      auto writer = RowDatabaseWriter::Create(fresh);
      ASSERT_TRUE(reader.ok() && writer.ok());
      Rows rows;
      for (reader->Begin(); reader->valid(); reader->Next()) {
        rows[{reader->table(), reader->row().value()}] =
            std::string(reader->record().begin(), reader->record().end());
      }
      change(rows);
      for (const auto& [key, record] : rows) {
        ASSERT_TRUE(writer->Put(key.first, RowId(key.second), record).ok());
      }
      ASSERT_TRUE(writer->Finish(*reader->ReadMetadata()).ok());
    }
    fs::remove_all(directory);
    fs::rename(fresh, directory);
  }

  SampleTrainer trainer_;
  CounterRng rng_{17};
  std::unique_ptr<ShardCore> core_ = std::make_unique<ShardCore>(SampleOptions());
  std::unique_ptr<ImageStore> store_;
  std::unique_ptr<CheckpointImages> images_;
  std::map<uint64_t, std::pair<AllRecords, uint64_t>> at_cut_;
};

TEST_F(ShardRecordsTest, AnImageBringsThemBack) {
  ASSERT_TRUE(WriteImage(Path("image"), 5, *core_).ok());
  ShardCore loaded(SampleOptions());
  const auto read = LoadImage(Path("image"), loaded);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(RecordsOf(loaded), RecordsOf(*core_));
  EXPECT_EQ(loaded.Digest(), core_->Digest());
  const auto applied = [](const ShardCore& core) {
    std::vector<int64_t> steps;
    for (const ShardTable& table : core.models().at("m")->tables()) {
      steps.push_back(table.applied().value());
    }
    return steps;
  };
  EXPECT_EQ(applied(loaded), applied(*core_));
  for (size_t t = 0; t < Model().tables().size(); ++t) {
    EXPECT_EQ(loaded.FindModel("m")->tables()[t].memory_bytes(),
              Model().tables()[t].memory_bytes());
  }
}

TEST_F(ShardRecordsTest, ANamedCheckpointBringsThemBack) {
  ModelCheckpoints checkpoints(store_.get());
  const auto size = checkpoints.Write(Model(), "one");
  ASSERT_TRUE(size.ok()) << size.status();
  const auto inspected = InspectImage(store_->PathOf("m.one"));
  EXPECT_TRUE(inspected.ok()) << inspected.status();
  const AllRecords written = RecordsOf(*core_);
  const uint64_t digest = core_->Digest();
  Change(300);
  auto loaded = checkpoints.Load(*core_, "m", "one");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  core_->InstallModel(*std::move(loaded));
  EXPECT_EQ(RecordsOf(*core_), written);
  EXPECT_EQ(core_->Digest(), digest);
  int64_t rows = 0;
  for (const ShardTable& table : Model().tables()) rows += table.stored().present();
  EXPECT_EQ(size->rows, rows);
}

TEST_F(ShardRecordsTest, AnIncrementHasWhatHasComeAndWhatHasGone) {
  EXPECT_EQ(WritePart(1, 0).base_checkpoint_id, 0u);
  for (uint64_t checkpoint_id = 2; checkpoint_id <= 5; ++checkpoint_id) {
    Change(60);
    EXPECT_EQ(
        WritePart(checkpoint_id, checkpoint_id - 1, [this] { Change(200); }).base_checkpoint_id,
        checkpoint_id - 1)
        << images_->Progress(checkpoint_id).error;
    ExpectLoads(checkpoint_id);
    // What changed meanwhile is most of the rows; the next part is to be built on few.
    EXPECT_EQ(WritePart(checkpoint_id, 0).base_checkpoint_id, 0u);
  }
  ExpectLoads(1);
}

TEST_F(ShardRecordsTest, ARowThatIsGoneStandsInTheIncrementAlone) {
  RecordStore& linear = *Model().tables()[5].records;
  linear.Put(LocalRow(2), SampleRecord(5, LocalRow(2), rng_));
  WritePart(1, 0);
  linear.Erase(LocalRow(2));
  ASSERT_EQ(WritePart(2, 1).base_checkpoint_id, 1u);
  auto newest = RowDatabaseReader::Open({absl::StrCat(images_->PathOf(2), "/delta-000-001")});
  ASSERT_TRUE(newest.ok()) << newest.status();
  const auto metadata = ReadCheckpointMetadata(*newest);
  ASSERT_TRUE(metadata.ok()) << metadata.status();
  EXPECT_EQ(metadata->tables[5].changed_rows, 1);
  EXPECT_EQ(metadata->tables[5].present, linear.present());
  ExpectLoads(2);
  linear.Put(LocalRow(2), SampleRecord(5, LocalRow(2), rng_));
  ASSERT_EQ(WritePart(3, 2).base_checkpoint_id, 2u);
  ExpectLoads(3);
  // In the place of the increment it came with, it would come back.
  Rewrite(absl::StrCat(images_->PathOf(2), "/delta-000-001"), [](Rows& rows) { rows.clear(); });
  EXPECT_TRUE(absl::IsDataLoss(InspectImage(images_->PathOf(2)).status()));
  ShardCore loaded(SampleOptions());
  EXPECT_TRUE(absl::IsDataLoss(LoadImage(images_->PathOf(2), loaded).status()));
}

TEST_F(ShardRecordsTest, DamageIsFound) {
  ASSERT_TRUE(WriteImage(Path("whole"), 5, *core_).ok());
  const auto key_of = [](Rows& rows, size_t table) { return rows.lower_bound({table, 0}); };
  const std::vector<std::tuple<const char*, std::function<void(Rows&)>, const char*>> cases = {
      {"a missing record", [&](Rows& rows) { rows.erase(key_of(rows, 3)); },
       "table \"memory\" has"},
      {"an empty record", [&](Rows& rows) { key_of(rows, 4)->second.clear(); },
       "table \"trees\" has"},
      {"another record", [&](Rows& rows) { key_of(rows, 4)->second[0] ^= 1; }, "digest"},
      {"a record of zeros more", [&](Rows& rows) { key_of(rows, 4)->second.push_back('\0'); },
       "digest"},
      {"a record of the row beside",
       [&](Rows& rows) {
         const auto first = key_of(rows, 5);
         std::swap(first->second, std::next(first)->second);
       },
       "digest"},
      {"a point in the row of another",
       [&](Rows& rows) {
         const auto first = key_of(rows, 3);
         std::swap(first->second, std::next(first)->second);
       },
       "does not belong here"},
      {"a surplus record",
       [&](Rows& rows) {
         rows[{6, 7}] = "x";
       },
       "more rows than"},
      {"a row of floats without bytes", [&](Rows& rows) { key_of(rows, 0)->second.clear(); },
       "row 0 has 0 bytes"},
  };
  for (const auto& [name, change, message] : cases) {
    Copy("whole", "image");
    Rewrite(Path("image/model-000"), change);
    ShardCore loaded(SampleOptions());
    const absl::Status status = LoadImage(Path("image"), loaded).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << name << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message)) << name;
    EXPECT_TRUE(absl::IsDataLoss(InspectImage(Path("image")).status())) << name;
  }
  // A flipped bit on the disk.
  std::string largest;
  for (const auto& entry : fs::directory_iterator(Path("whole/model-000"))) {
    if (entry.path().extension() != ".sst") continue;
    if (largest.empty() || entry.file_size() > fs::file_size(largest)) largest = entry.path();
  }
  std::string bytes = Read(largest);
  bytes[bytes.size() / 2] ^= 1;
  Write(largest, bytes);
  ShardCore loaded(SampleOptions());
  EXPECT_TRUE(absl::IsDataLoss(LoadImage(Path("whole"), loaded).status()));
  EXPECT_TRUE(absl::IsDataLoss(InspectImage(Path("whole")).status()));
}

TEST_F(ShardRecordsTest, MetadataCountsTheRowsThatAreThere) {
  CheckpointMetadata metadata = DescribeForCheckpoint(Model());
  for (const int64_t increment : {0, 3}) {
    metadata.increment = increment;
    const std::string bytes = EncodeMetadata(metadata);
    const auto decoded = DecodeMetadata(bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->increment, increment);
    EXPECT_EQ(decoded->spec, Model().spec());
    EXPECT_EQ(decoded->tables[3].present, Model().tables()[3].records->present());
    EXPECT_EQ(decoded->tables[3].stored_bytes, Model().tables()[3].records->stored_bytes());
    EXPECT_EQ(EncodeMetadata(*decoded), bytes);
  }
}

TEST_F(ShardRecordsTest, MoreOfThemThanTheBudgetAreNotLoaded) {
  ASSERT_TRUE(WriteImage(Path("image"), 5, *core_).ok());
  const int64_t needed = core_->memory_bytes();
  for (const int64_t budget : {needed - 1, needed}) {
    ShardCoreOptions options = SampleOptions();
    options.memory_bytes = budget;
    ShardCore loaded(options);
    const absl::Status status = LoadImage(Path("image"), loaded).status();
    EXPECT_EQ(status.ok(), budget == needed) << status;
    EXPECT_EQ(ReasonOf(status), budget == needed ? "" : reason::kOutOfMemory) << status;
  }
}

TEST_F(ShardRecordsTest, OperationsOnFloatsAreRefused) {
  for (size_t t = kFirstRecordTable; t < Model().tables().size(); ++t) {
    const std::string table = Model().tables()[t].spec.name;
    ScatterCommand scatter = trainer_.Scatter(ScatterMode::kAdd, "input");
    scatter.table = table;
    std::vector<Answer> answers;
    answers.push_back(core_->Apply(scatter));
    GatherCommand gather;
    gather.model = "m";
    gather.topology_version = 1;
    gather.table = table;
    gather.rows = {RowId(0)};
    answers.push_back(core_->Apply(gather));
    gather.by_fingerprint = true;
    answers.push_back(core_->Apply(gather));
    TopKCommand top;
    top.model = "m";
    top.table = table;
    top.k = 1;
    answers.push_back(core_->Apply(top));
    answers.push_back(core_->Apply(trainer_.Step(DenseGatherOp{.table = table}, 1)));
    for (const Answer& answer : answers) {
      EXPECT_EQ(Reason(answer), reason::kWrongRole) << answer.reply->status;
      EXPECT_THAT(std::string(answer.reply->status.message()), HasSubstr(table));
    }
  }
}

TEST_F(ShardRecordsTest, GaugesAndDescriptionsCountWhatIsThere) {
  Metrics metrics;
  TableLabels labels;
  TableGauges gauges(metrics, labels);
  gauges.Publish(*core_);
  const DescribeModelReply described = Model().Describe(/*with_digests=*/true);
  for (size_t t = kFirstRecordTable; t < described.tables.size(); ++t) {
    const RecordStore& records = *Model().tables()[t].records;
    EXPECT_EQ(described.tables[t].shard_rows, records.present());
    EXPECT_EQ(described.tables[t].memory_bytes, records.memory_bytes());
    EXPECT_EQ(described.tables[t].digest, records.Digest({.threads = 1}));
    EXPECT_THAT(metrics.Expose(),
                HasSubstr(absl::StrCat("dslide_shard_rows{table=\"", described.tables[t].name,
                                       "\"} ", records.present(), "\n")));
  }
  EXPECT_THAT(metrics.Expose(), HasSubstr("dslide_shard_memory_bytes{kind=\"records\"} "));
}

}  // namespace
}  // namespace dslide::shard
