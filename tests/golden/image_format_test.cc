// Images of a shard, as earlier programs have written them.

#include <cstring>
#include <vector>

#include "core/system/file_list.h"
#include "services/shard/image/file_list.h"
#include "services/shard/image/shard_image.h"
#include "services/shard/state/core_state.h"
#include "services/shard/storage/hash_image.h"
#include "services/shard/storage/storage_database.h"
#include "services/shard/storage/storage_metadata.h"
#include "tests/golden/format_files.h"

namespace dslide::golden {
namespace {

using shard::ShardCore;

// Parts of cluster checkpoints: all rows, and an increment on them.
constexpr char kAllRows[] = "image-v1";
constexpr char kIncrement[] = "image-v1-increment";
// With an open step whose rows have weights.
constexpr char kWeighted[] = "image-v1-weights";
// With rows that keep averages, and with an open step whose labels have weights.
constexpr char kAveraged[] = "image-v1-averages";

class ImageFormatTest : public FormatTest {
 protected:
  static absl::Status Load(const std::string& image) {
    const std::unique_ptr<ShardCore> core = FreshCore();
    return shard::LoadImage(image, *core).status();
  }
  void ExpectRefused(const std::string& image, const std::string& where, int64_t version,
                     const std::string& reads) {
    ExpectOtherVersion(Load(image), where, version, reads);
    ExpectOtherVersion(shard::InspectImage(image).status(), where, version, reads);
  }
  // The metadata record as it lies in the database.
  static std::string Metadata(const std::string& database) {
    auto reader = shard::RowDatabaseReader::Open({database});
    EXPECT_TRUE(reader.ok()) << reader.status();
    return *reader->ReadMetadata();
  }
  // Writes the database anew, with another metadata record.
  static void ReplaceMetadata(const std::string& database, const std::string& metadata) {
    const std::string fresh = database + ".fresh";
    {
      auto reader = shard::RowDatabaseReader::Open({database});
      auto writer = shard::RowDatabaseWriter::Create(fresh);
      ASSERT_TRUE(reader.ok() && writer.ok());
      for (reader->Begin(); reader->valid(); reader->Next()) {
        ASSERT_TRUE(writer->Put(reader->table(), reader->row(), reader->record()).ok());
      }
      ASSERT_TRUE(writer->Finish(metadata).ok());
    }
    std::filesystem::remove_all(database);
    std::filesystem::rename(fresh, database);
  }
};

struct KeptImage {
  std::string name;
  uint64_t lsn = 0;
  int64_t increments = 0;
};

class KeptImageTest : public ImageFormatTest, public ::testing::WithParamInterface<KeptImage> {};

TEST_P(KeptImageTest, ComesBackAsItWas) {
  const KeptImage& kept = GetParam();
  const std::string image = InFormats(kept.name);
  const auto head = shard::ReadImageHead(image);
  ASSERT_TRUE(head.ok()) << head.status();
  EXPECT_EQ(head->lsn, kept.lsn);
  EXPECT_EQ(head->increments, kept.increments);
  ASSERT_EQ(head->models.size(), 1u);
  EXPECT_EQ(head->models[0].name, "golden");
  EXPECT_TRUE(head->models[0].has_hashes);
  EXPECT_TRUE(shard::InspectImage(image).ok()) << shard::InspectImage(image).status();
  EXPECT_TRUE(shard::VerifyFileList(image).ok()) << shard::VerifyFileList(image).status();
  const std::unique_ptr<ShardCore> core = FreshCore();
  const auto read = shard::LoadImage(image, *core);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->lsn, kept.lsn);
  ExpectHolds(*core, kept.name);
}

INSTANTIATE_TEST_SUITE_P(Kept, KeptImageTest,
                         ::testing::Values(KeptImage{.name = kAllRows, .lsn = 41},
                                           KeptImage{.name = kWeighted, .lsn = 44},
                                           KeptImage{.name = kAveraged, .lsn = 45},
                                           KeptImage{
                                               .name = kIncrement, .lsn = 43, .increments = 1}),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

TEST_F(ImageFormatTest, AnIncrementNamesItsBase) {
  EXPECT_EQ(shard::ReadImageHead(InFormats(kIncrement))->base_checkpoint_id, 1u);
}

// Fails when the layout changes and its version does not.
TEST_F(ImageFormatTest, TodaysProgramsWriteTheSame) {
  for (const char* name : {kAllRows, kWeighted, kAveraged}) {
    const std::string kept = InFormats(name);
    const std::unique_ptr<ShardCore> core = FreshCore();
    const auto read = shard::LoadImage(kept, *core);
    ASSERT_TRUE(read.ok()) << read.status();
    ASSERT_TRUE(shard::WriteImage(Path(name), read->lsn, *core).ok());
    for (const char* file : {"state", "hashes-000"}) {
      EXPECT_EQ(Read(absl::StrCat(Path(name), "/", file)), Read(absl::StrCat(kept, "/", file)))
          << name << "/" << file;
    }
    EXPECT_EQ(Metadata(Path(name) + "/model-000"), Metadata(kept + "/model-000"));
  }
  const std::string bytes = Metadata(InFormats(kIncrement) + "/delta-000-001");
  const auto metadata = shard::DecodeMetadata(bytes);
  ASSERT_TRUE(metadata.ok()) << metadata.status();
  EXPECT_EQ(shard::EncodeMetadata(*metadata), bytes);
  const auto list = shard::ReadListedFiles(InFormats(kIncrement));
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(EncodeFileList(list->files), Read(InFormats(kIncrement) + "/FILES"));
}

TEST_F(ImageFormatTest, StatesOfOtherVersionsAreRefused) {
  for (const int64_t version : {0, 2}) {
    const std::string image = CopyOf(kAllRows);
    PatchBytes(image + "/state", "DSLIMAGE1", absl::StrCat("DSLIMAGE", version));
    ExpectRefused(image, image + "/state", version, "format 1");
    ExpectOtherVersion(shard::ReadImageHead(image).status(), image + "/state", version, "format 1");
  }
  const std::string image = CopyOf(kAllRows);
  PatchBytes(image + "/state", "DSLIMAGE1", "DSLIMAGE?");
  EXPECT_TRUE(absl::IsDataLoss(Load(image))) << Load(image);
}

TEST_F(ImageFormatTest, CoreStatesOfOtherVersionsAreRefused) {
  const std::unique_ptr<ShardCore> core = FreshCore();
  ASSERT_TRUE(shard::LoadImage(InFormats(kAllRows), *core).ok());
  const std::string state = shard::EncodeCoreState(*core);
  for (const uint32_t version : {0, 2}) {
    const std::string image = CopyOf(kAllRows);
    std::string patched = state;
    std::memcpy(patched.data(), &version, sizeof(version));
    PatchBytes(image + "/state", state, patched);
    ExpectOtherVersion(Load(image), image + "/state: the state", version, "format 1");
  }
}

TEST_F(ImageFormatTest, HashesOfOtherVersionsAreRefused) {
  for (const int64_t version : {0, 2}) {
    const std::string image = CopyOf(kAllRows);
    PatchBytes(image + "/hashes-000", "DSLHASH1", absl::StrCat("DSLHASH", version));
    ExpectRefused(image, image + "/hashes-000", version, "format 1");
  }
}

TEST_F(ImageFormatTest, RowsOfOtherVersionsAreRefused) {
  for (const auto& [kept, part] :
       {std::pair{kAllRows, "/model-000"}, {kIncrement, "/delta-000-001"}}) {
    for (const int64_t version : {0, 2}) {
      const std::string image = CopyOf(kept);
      const std::string database = image + part;
      const std::string text(UnsealBytes(Metadata(database)).value());
      ReplaceMetadata(database, SealBytes(Patched(text, "{\"format\":1,",
                                                  absl::StrCat("{\"format\":", version, ","))));
      ExpectOtherVersion(Load(image), database, version, "format 1");
      ExpectOtherVersion(shard::InspectImage(image).status(), image, version, "format 1");
    }
  }
}

TEST_F(ImageFormatTest, ListsOfFilesOfOtherVersionsAreRefused) {
  for (const int64_t version : {0, 2}) {
    const std::string part = CopyOf(kAllRows);
    PatchText(part + "/FILES", "dslide files 1\n", absl::StrCat("dslide files ", version, "\n"));
    ExpectOtherVersion(shard::VerifyFileList(part).status(), part + "/FILES", version, "format 1");
  }
}

}  // namespace
}  // namespace dslide::golden
