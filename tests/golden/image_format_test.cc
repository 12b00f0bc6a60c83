// Images of a shard's state, and parts of cluster checkpoints, as earlier programs have written
// them.

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

// Both are parts of cluster checkpoints, too, with a list of their files.
constexpr char kAllRows[] = "image-v2";
constexpr char kIncrement[] = "image-v3";
// With an open step whose rows have weights: its state is of format 4.
constexpr char kWeighted[] = "image-v2-state-v4";
// With rows that keep averages, of format 5, and with an open step whose labels have weights: its
// state is of format 5.
constexpr char kAveraged[] = "image-v2-state-v5";

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
  bool has_hashes = true;
  std::string model = "golden";
};

class KeptImageTest : public ImageFormatTest, public ::testing::WithParamInterface<KeptImage> {};

TEST_P(KeptImageTest, ComesBackAsItWas) {
  const KeptImage& kept = GetParam();
  const std::string image = InFormats(kept.name);
  const auto head = shard::ReadImageHead(image);
  ASSERT_TRUE(head.ok()) << head.status();
  EXPECT_EQ(head->lsn, kept.lsn);
  EXPECT_EQ(head->increments, kept.increments);
  EXPECT_EQ(head->has_hashes, kept.has_hashes);
  EXPECT_THAT(head->models, ::testing::ElementsAre(kept.model));
  EXPECT_TRUE(shard::InspectImage(image).ok()) << shard::InspectImage(image).status();
  const std::unique_ptr<ShardCore> core = FreshCore();
  const auto lsn = shard::LoadImage(image, *core);
  ASSERT_TRUE(lsn.ok()) << lsn.status();
  EXPECT_EQ(*lsn, kept.lsn);
  ExpectHolds(*core, kept.name);
}

INSTANTIATE_TEST_SUITE_P(Versions, KeptImageTest,
                         ::testing::Values(
                             // Of commit 266ec98.
                             KeptImage{.name = "image-v1", .lsn = 414, .has_hashes = false},
                             // Of commit e7cf345, whose state was of format 2.
                             KeptImage{.name = "image-v2-state-v2", .lsn = 1398},
                             KeptImage{.name = kAllRows, .lsn = 41},
                             KeptImage{.name = kWeighted, .lsn = 44},
                             KeptImage{.name = kAveraged, .lsn = 45},
                             KeptImage{.name = kIncrement, .lsn = 43, .increments = 1}),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

TEST_F(ImageFormatTest, ListsOfFilesAreThoseOfTheirFiles) {
  for (const char* kept : {kAllRows, kIncrement}) {
    const auto files = shard::VerifyFileList(InFormats(kept));
    EXPECT_TRUE(files.ok()) << files.status();
    const auto list = shard::ReadListedFiles(InFormats(kept));
    ASSERT_TRUE(list.ok()) << list.status();
    EXPECT_EQ(EncodeFileList(list->files), Read(InFormats(kept) + "/FILES"));
  }
  EXPECT_EQ(shard::ReadImageHead(InFormats(kIncrement))->base_checkpoint_id, 1u);
}

// Fails when the layout changes and its version does not.
TEST_F(ImageFormatTest, TodaysProgramsWriteTheSame) {
  const std::string kept = InFormats(kAllRows);
  const std::unique_ptr<ShardCore> core = FreshCore();
  const auto lsn = shard::LoadImage(kept, *core);
  ASSERT_TRUE(lsn.ok()) << lsn.status();
  ASSERT_TRUE(shard::WriteImage(Path("again"), *lsn, *core).ok());
  for (const char* file : {"state", "hashes-000"}) {
    EXPECT_EQ(Read(absl::StrCat(Path("again"), "/", file)), Read(absl::StrCat(kept, "/", file)))
        << file;
  }
  EXPECT_EQ(Metadata(Path("again") + "/model-000"), Metadata(kept + "/model-000"));
  const std::unique_ptr<ShardCore> weighted = FreshCore();
  ASSERT_TRUE(shard::LoadImage(InFormats(kWeighted), *weighted).ok());
  ASSERT_TRUE(shard::WriteImage(Path("weighted"), 44, *weighted).ok());
  EXPECT_EQ(Read(Path("weighted") + "/state"), Read(absl::StrCat(InFormats(kWeighted), "/state")));
  const std::unique_ptr<ShardCore> averaged = FreshCore();
  ASSERT_TRUE(shard::LoadImage(InFormats(kAveraged), *averaged).ok());
  ASSERT_TRUE(shard::WriteImage(Path("averaged"), 45, *averaged).ok());
  EXPECT_EQ(Read(Path("averaged") + "/state"), Read(absl::StrCat(InFormats(kAveraged), "/state")));
  for (const std::string& database : {kept + "/model-000", InFormats(kAveraged) + "/model-000",
                                      InFormats(kIncrement) + "/delta-000-001"}) {
    const std::string bytes = Metadata(database);
    const auto metadata = shard::DecodeMetadata(bytes);
    ASSERT_TRUE(metadata.ok()) << metadata.status();
    EXPECT_EQ(shard::EncodeMetadata(*metadata), bytes);
  }
}

TEST_F(ImageFormatTest, StatesOfOtherVersionsAreRefused) {
  for (const auto& [kept, magic] : {std::pair{kAllRows, "DSLIMAG2"}, {kIncrement, "DSLIMAG3"}}) {
    for (const int64_t version : {0, 4}) {
      const std::string image = CopyOf(kept);
      PatchBytes(image + "/state", magic, absl::StrCat("DSLIMAG", version));
      ExpectRefused(image, image + "/state", version, "formats 1 to 3");
      ExpectOtherVersion(shard::ReadImageHead(image).status(), image + "/state", version,
                         "formats 1 to 3");
    }
  }
  const std::string image = CopyOf(kAllRows);
  PatchBytes(image + "/state", "DSLIMAG2", "DSLIMAG?");
  EXPECT_TRUE(absl::IsDataLoss(Load(image))) << Load(image);
}

TEST_F(ImageFormatTest, CoreStatesOfOtherVersionsAreRefused) {
  const std::unique_ptr<ShardCore> core = FreshCore();
  ASSERT_TRUE(shard::LoadImage(InFormats(kAllRows), *core).ok());
  const std::string state = shard::EncodeCoreState(*core);
  for (const uint32_t version : {0, 6}) {
    const std::string image = CopyOf(kAllRows);
    std::string patched = state;
    std::memcpy(patched.data(), &version, sizeof(version));
    PatchBytes(image + "/state", state, patched);
    ExpectOtherVersion(Load(image), image + "/state: the state", version, "formats 1 to 5");
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
  for (const auto& [kept, part, format] :
       {std::tuple{kAllRows, "/model-000", 2}, {kIncrement, "/delta-000-001", 3}}) {
    for (const int64_t version : {0, 6}) {
      const std::string image = CopyOf(kept);
      const std::string database = image + part;
      const std::string text(UnsealBytes(Metadata(database)).value());
      ReplaceMetadata(database, SealBytes(Patched(text, absl::StrCat("{\"format\":", format, ","),
                                                  absl::StrCat("{\"format\":", version, ","))));
      ExpectOtherVersion(Load(image), database, version, "formats 1 to 5");
      ExpectOtherVersion(shard::InspectImage(image).status(), image, version, "formats 1 to 5");
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
