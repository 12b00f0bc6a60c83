#include "services/coordinator/assets/asset_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/crc32c.h"
#include "core/base/reason.h"
#include "core/protocol/coordinator_reason_words.h"
#include "core/protocol/reason_words.h"
#include "services/coordinator/assets/asset_inspection.h"

namespace dslide::coordinator {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::TestParamInfo;

using TestFiles = std::map<std::string, std::string>;  // name -> bytes

const TestFiles kSmall = {{"labels.txt", "red\nblue\n"}, {"tokenizer.json", "{}\n"}};
const TestFiles kOther = {{"labels.txt", "red\ngreen\n"}, {"tokenizer.json", "{}\n"}};

FileList TestList(const TestFiles& files) {
  std::vector<ListedFile> listed;
  for (const auto& [name, bytes] : files) {
    listed.push_back({name, static_cast<int64_t>(bytes.size()), ExtendCrc32c(0, bytes)});
  }
  return *DecodeFileList("FILES", EncodeFileList(listed));
}

AssetSetId IdOf(const TestFiles& files, const std::string& model = "m") {
  return {model, TestList(files).checksum};
}

// On the disk and in memory.
class AssetStoreTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    static int number = 0;
    dir_ = absl::StrCat(::testing::TempDir(), "assets.", getpid(), ".", number++);
    fs::create_directories(dir_);
    Open({});
  }
  void TearDown() override { fs::remove_all(dir_); }

  bool on_disk() const { return GetParam(); }
  void Open(const AssetLimits& limits) {
    store_.reset();
    auto opened =
        AssetStore::Open(on_disk() ? AssetFolders::OnDisk(dir_) : AssetFolders::InMemory(), limits);
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = *std::move(opened);
  }
  absl::Status Send(const TestFiles& files, const std::string& model = "m") {
    const AssetSetId id = IdOf(files, model);
    absl::Status sent = absl::OkStatus();
    for (const auto& [name, bytes] : files) {
      if (sent.ok()) sent = store_->Write(id, name, 0, bytes);
    }
    if (!sent.ok()) return sent;
    return store_->Write(id, kFileListName, 0, EncodeFileList(TestList(files).files));
  }
  void Put(const TestFiles& files, const std::string& model = "m") {
    ASSERT_TRUE(Send(files, model).ok());
    const auto created = store_->Commit(IdOf(files, model), std::nullopt);
    ASSERT_TRUE(created.ok()) << created.status();
    EXPECT_TRUE(*created);
  }
  std::string MustRead(const AssetSetId& id, const std::string& file) {
    const auto piece = store_->Read(id, file, 0);
    EXPECT_TRUE(piece.ok()) << piece.status();
    return piece.value_or("");
  }
  std::string PathOf(const AssetSetId& id, const std::string& file) const {
    return absl::StrFormat("%s/assets/%s/%08x/%s", dir_, id.model, id.checksum, file);
  }
  static void Overwrite(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }

  std::string dir_;
  std::unique_ptr<AssetStore> store_;
};

TEST_P(AssetStoreTest, ASetIsTheModelsOnceItIsCommitted) {
  ASSERT_TRUE(Send(kSmall).ok());
  EXPECT_THAT(store_->Find("m")->files, IsEmpty());
  EXPECT_EQ(store_->Read(IdOf(kSmall), "labels.txt", 0).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_TRUE(*store_->Commit(IdOf(kSmall), std::nullopt));
  const auto found = store_->Find("m");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->files, TestList(kSmall).files);
  EXPECT_EQ(found->checksum, IdOf(kSmall).checksum);
  EXPECT_EQ(MustRead(IdOf(kSmall), "labels.txt"), "red\nblue\n");
  EXPECT_EQ(*store_->Read(IdOf(kSmall), "labels.txt", 4), "blue\n");
  EXPECT_EQ(*store_->Read(IdOf(kSmall), "labels.txt", 9), "");
  EXPECT_EQ(ReasonOf(store_->Read(IdOf(kSmall), "idf", 0).status()), reason::kUnknownAssets);
}

TEST_P(AssetStoreTest, AnEqualSetChangesNothingAndAnotherIsRefused) {
  Put(kSmall);
  ASSERT_TRUE(Send(kSmall).ok());
  EXPECT_FALSE(*store_->Commit(IdOf(kSmall), std::nullopt));
  EXPECT_FALSE(*store_->Commit(IdOf(kSmall), std::nullopt)) << "without having sent it";
  ASSERT_TRUE(Send(kOther).ok());
  const absl::Status refused = store_->Commit(IdOf(kOther), std::nullopt).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(refused), reason::kAssetsDiffer);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("labels.txt is 9 bytes"));
  EXPECT_THAT(std::string(refused.message()), Not(HasSubstr("tokenizer.json")));
  EXPECT_EQ(store_->Find("m")->checksum, IdOf(kSmall).checksum);
}

TEST_P(AssetStoreTest, WhoNamesThePresentSetReplacesIt) {
  Put(kSmall);
  ASSERT_TRUE(Send(kOther).ok());
  EXPECT_EQ(ReasonOf(store_->Commit(IdOf(kOther), 1).status()), reason::kAssetsDiffer);
  ASSERT_TRUE(Send(kOther).ok());
  EXPECT_TRUE(*store_->Commit(IdOf(kOther), IdOf(kSmall).checksum));
  EXPECT_EQ(store_->Find("m")->checksum, IdOf(kOther).checksum);
  EXPECT_EQ(ReasonOf(store_->Read(IdOf(kSmall), "labels.txt", 0).status()), reason::kUnknownAssets);
}

TEST_P(AssetStoreTest, WhatIsNotWhatItsListSaysIsRefused) {
  const AssetSetId id = IdOf(kSmall);
  EXPECT_EQ(ReasonOf(store_->Commit(id, std::nullopt).status()), reason::kUnknownAssets);
  ASSERT_TRUE(Send(kSmall).ok());
  ASSERT_TRUE(store_->Write(id, "labels.txt", 0, "rex").ok());
  const absl::Status changed = store_->Commit(id, std::nullopt).status();
  EXPECT_EQ(changed.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(changed.message()), HasSubstr("labels.txt"));
  EXPECT_EQ(ReasonOf(store_->Commit(id, std::nullopt).status()), reason::kUnknownAssets)
      << "what had arrived is gone";
  ASSERT_TRUE(Send(kSmall).ok());
  ASSERT_TRUE(store_->Write(id, "more.txt", 0, "x").ok());
  EXPECT_EQ(store_->Commit(id, std::nullopt).status().code(), absl::StatusCode::kDataLoss);
  ASSERT_TRUE(store_->Write(id, "labels.txt", 0, "red\nblue\n").ok());
  EXPECT_EQ(store_->Commit(id, std::nullopt).status().code(), absl::StatusCode::kDataLoss)
      << "no list";
  EXPECT_THAT(store_->Find("m")->files, IsEmpty());
}

TEST_P(AssetStoreTest, PiecesFollowEachOtherAndMayComeTwice) {
  const std::string large(static_cast<size_t>(kAssetPieceBytes) + 5, 'x');
  const TestFiles files = {{"vocabulary.tsv", large}};
  const AssetSetId id = IdOf(files);
  const absl::string_view first = absl::string_view(large).substr(0, kAssetPieceBytes);
  EXPECT_EQ(ReasonOf(store_->Write(id, "vocabulary.tsv", 1, "y")), reason::kUnknownAssets);
  EXPECT_EQ(ReasonOf(store_->Write(id, "vocabulary.tsv", 0, large)), reason::kOverLimit);
  ASSERT_TRUE(store_->Write(id, "vocabulary.tsv", 0, first).ok());
  ASSERT_TRUE(store_->Write(id, "vocabulary.tsv", 0, first).ok());
  ASSERT_TRUE(store_->Write(id, "vocabulary.tsv", kAssetPieceBytes, "xxxxx").ok());
  ASSERT_TRUE(store_->Write(id, kFileListName, 0, EncodeFileList(TestList(files).files)).ok());
  EXPECT_TRUE(*store_->Commit(id, std::nullopt));
  EXPECT_EQ(store_->Read(id, "vocabulary.tsv", 0)->size(), first.size());
  EXPECT_EQ(*store_->Read(id, "vocabulary.tsv", kAssetPieceBytes), "xxxxx");
}

TEST_P(AssetStoreTest, NamesAndPlacesAreChecked) {
  const AssetSetId id = IdOf(kSmall);
  for (const char* name : {"", "..", "a/b", "/etc/passwd", "a b"}) {
    EXPECT_EQ(ReasonOf(store_->Write(id, name, 0, "x")), reason::kBadName) << name;
    EXPECT_EQ(ReasonOf(store_->Read(id, name, 0).status()), reason::kBadName) << name;
  }
  EXPECT_EQ(ReasonOf(store_->Write(id, std::string(65, 'a'), 0, "x")), reason::kBadName);
  EXPECT_EQ(ReasonOf(store_->Write({"../m", 1}, "a", 0, "x")), reason::kBadName);
  EXPECT_EQ(ReasonOf(store_->Write(id, "a", -1, "x")), reason::kOutOfRange);
}

TEST_P(AssetStoreTest, SizesAndUploadsAreBounded) {
  Open({.max_set_bytes = 10, .max_uploads = 2});
  ASSERT_TRUE(store_->Write({"m", 1}, "a", 0, "12345").ok());
  EXPECT_EQ(store_->Write({"m", 1}, "b", 0, "123456").code(), absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(store_->Write({"m", 1}, "a", 0, "12345").ok()) << "again is not more";
  ASSERT_TRUE(store_->Write({"m", 2}, "a", 0, "1").ok());
  ASSERT_TRUE(store_->Write({"m", 1}, "a", 5, "6").ok());
  ASSERT_TRUE(store_->Write({"m", 3}, "a", 0, "1").ok());
  EXPECT_TRUE(store_->Write({"m", 1}, "a", 6, "7").ok());
  EXPECT_EQ(ReasonOf(store_->Write({"m", 2}, "a", 1, "2")), reason::kUnknownAssets)
      << "the longest silent one has made room";
}

TEST_P(AssetStoreTest, ASetStaysWhileAModelOrACheckpointHasIt) {
  Put(kSmall);
  const std::vector<AssetSet> captured = store_->Capture();
  ASSERT_THAT(captured, ElementsAre(AssetSet{IdOf(kSmall), 2, 12}));
  ASSERT_TRUE(store_->Remove("m").ok());
  EXPECT_THAT(store_->Find("m")->files, IsEmpty());
  EXPECT_TRUE(store_->Verify(captured[0]).ok());
  Put(kOther);
  ASSERT_TRUE(store_->Replace({IdOf(kSmall)}).ok());
  EXPECT_EQ(store_->Find("m")->checksum, IdOf(kSmall).checksum);
  EXPECT_EQ(store_->Verify({IdOf(kOther), 2, 13}).code(), absl::StatusCode::kDataLoss);
  store_->Retain({});
  EXPECT_TRUE(store_->Verify(captured[0]).ok()) << "the model's own";
  ASSERT_TRUE(store_->Remove("m").ok());
  EXPECT_EQ(store_->Verify(captured[0]).code(), absl::StatusCode::kDataLoss);
}

TEST_P(AssetStoreTest, ASetThatCameBackForACheckpointStaysUntilItsManifestIsKnown) {
  ASSERT_TRUE(Send(kSmall).ok());
  const AssetSet set = {IdOf(kSmall), 2, 12};
  ASSERT_TRUE(store_->TakeIn(set).ok());
  ASSERT_TRUE(store_->TakeIn(set).ok());
  EXPECT_THAT(store_->Find("m")->files, IsEmpty());
  Put(kOther, "n");
  EXPECT_TRUE(store_->Verify(set).ok());
  store_->Retain({});
  EXPECT_EQ(ReasonOf(store_->TakeIn(set)), reason::kUnknownAssets);
}

INSTANTIATE_TEST_SUITE_P(Places, AssetStoreTest, ::testing::Bool(),
                         [](const TestParamInfo<bool>& place) {
                           return place.param ? "Disk" : "Memory";
                         });

// What only a disk does.
class DiskAssetStoreTest : public AssetStoreTest {};

TEST_P(DiskAssetStoreTest, SetsOutliveTheProcessAndUploadsDoNot) {
  Put(kSmall);
  Put(kOther, "n");
  ASSERT_TRUE(store_->Remove("n").ok());
  ASSERT_TRUE(Send(kOther).ok());
  Open({});
  EXPECT_EQ(store_->Find("m")->checksum, IdOf(kSmall).checksum);
  EXPECT_EQ(MustRead(IdOf(kSmall), "labels.txt"), "red\nblue\n");
  EXPECT_THAT(store_->Find("n")->files, IsEmpty());
  EXPECT_FALSE(fs::exists(dir_ + "/assets/n"));
  EXPECT_EQ(ReasonOf(store_->Write(IdOf(kOther), "labels.txt", 5, "x")), reason::kUnknownAssets);
}

TEST_P(DiskAssetStoreTest, DamageIsNamedAndMendedByTheSameSet) {
  Put(kSmall);
  const AssetSet set = {IdOf(kSmall), 2, 12};
  Overwrite(PathOf(set.id, "labels.txt"), "red\nblu\n");
  const absl::Status torn = store_->Verify(set);
  EXPECT_EQ(torn.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(torn.message()), HasSubstr("labels.txt has 8 bytes"));
  EXPECT_EQ(store_->Commit(set.id, std::nullopt).status().code(), absl::StatusCode::kDataLoss);
  ASSERT_TRUE(Send(kSmall).ok());
  EXPECT_FALSE(*store_->Commit(set.id, std::nullopt));
  EXPECT_TRUE(store_->Verify(set).ok());
  Overwrite(PathOf(set.id, kFileListName), "dslide files 1\n");
  EXPECT_EQ(store_->Find("m").status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(store_->Capture(), IsEmpty()) << "a checkpoint goes on without them";
  fs::remove(PathOf(set.id, kFileListName));
  EXPECT_EQ(store_->Find("m").status().code(), absl::StatusCode::kDataLoss);
}

TEST_P(DiskAssetStoreTest, AnInspectionReadsAllAndChangesNothing) {
  EXPECT_EQ(*InspectAssets(dir_), 0);
  EXPECT_EQ(InspectAssets(dir_ + "/absent").status().code(), absl::StatusCode::kNotFound);
  Put(kSmall);
  Put(kOther, "n");
  ASSERT_TRUE(Send(kOther).ok());
  EXPECT_EQ(*InspectAssets(dir_), 2);
  Overwrite(PathOf(IdOf(kOther, "n"), "labels.txt"), "red\n");
  EXPECT_EQ(InspectAssets(dir_).status().code(), absl::StatusCode::kDataLoss);
  fs::remove_all(fs::path(PathOf(IdOf(kOther, "n"), "labels.txt")).parent_path());
  EXPECT_EQ(InspectAssets(dir_).status().code(), absl::StatusCode::kDataLoss) << "CURRENT is left";
}

TEST_P(DiskAssetStoreTest, ADamagedCurrentIsNoAbsentOne) {
  Put(kSmall);
  store_.reset();
  const std::string path = dir_ + "/assets/m/CURRENT";
  std::ifstream input(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(input)), {});
  text[text.size() / 2] ^= 1;
  Overwrite(path, text);
  const auto opened = AssetStore::Open(AssetFolders::OnDisk(dir_), {});
  EXPECT_EQ(opened.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(opened.status().message()), HasSubstr("CURRENT"));
}

TEST_P(DiskAssetStoreTest, WhatTheDiskRefusesIsSaid) {
  // A file where a folder is to be.
  Overwrite(dir_ + "/assets/.uploads", "");
  const absl::Status refused = store_->Write(IdOf(kSmall), "labels.txt", 0, "x");
  EXPECT_FALSE(refused.ok());
  EXPECT_THAT(std::string(refused.message()), HasSubstr(".uploads"));
  EXPECT_EQ(ReasonOf(store_->Commit(IdOf(kSmall), std::nullopt).status()), reason::kUnknownAssets);
}

INSTANTIATE_TEST_SUITE_P(Places, DiskAssetStoreTest, ::testing::Values(true));

}  // namespace
}  // namespace dslide::coordinator
