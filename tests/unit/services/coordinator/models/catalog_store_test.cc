#include "services/coordinator/models/catalog_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "core/base/counter_rng.h"
#include "core/base/crc32c.h"
#include "tests/unit/services/coordinator/fakes.h"

namespace dslide::coordinator {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class CatalogStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    static int number = 0;
    dir_ = absl::StrCat(::testing::TempDir(), "catalog.", getpid(), ".", number++);
  }
  void TearDown() override { fs::remove_all(dir_); }

  std::unique_ptr<CatalogStore> MustOpen() {
    auto store = OpenCatalogStore(dir_);
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }
  static MembershipRecord Record() {
    return {.expected_shards = 2,
            .topology_version = 3,
            .dealt_weights = {1.0, 0.1},
            .shards = {{0, "a:1", 1.0, 5, Instance('\xff'), false, "a:2"},
                       {1, "host\xfe:1", 0.1, uint64_t{1} << 60, Instance(2), true, ""}}};
  }
  // Puts a record into the database behind the store's back.
  void Write(const std::string& key, const std::string& value) {
    rocksdb::DB* db = nullptr;
    ASSERT_TRUE(rocksdb::DB::Open(rocksdb::Options(), dir_ + "/catalog", &db).ok());
    const std::unique_ptr<rocksdb::DB> owned(db);
    ASSERT_TRUE(db->Put(rocksdb::WriteOptions(), key, value).ok());
  }
  void Fill() {
    const auto store = MustOpen();
    ASSERT_TRUE(store->PutMembership(Record()).ok());
    ASSERT_TRUE(store->PutModel(TestModel("a", 100)).ok());
    ASSERT_TRUE(store->PutModel(TestModel("b", 200)).ok());
  }

  std::string dir_;
};

TEST_F(CatalogStoreTest, ANewStoreIsEmpty) {
  const auto content = MustOpen()->Load();
  ASSERT_TRUE(content.ok());
  EXPECT_FALSE(content->membership.has_value());
  EXPECT_TRUE(content->models.empty());
}

TEST_F(CatalogStoreTest, WhatWasWrittenComesBackInAnotherProcess) {
  Fill();
  {
    const auto store = MustOpen();
    ASSERT_TRUE(store->DeleteModel("b").ok());
    ASSERT_TRUE(store->PutModel(TestModel("c", 300)).ok());
  }
  const auto content = MustOpen()->Load();
  ASSERT_TRUE(content.ok()) << content.status();
  EXPECT_EQ(*content->membership, Record());
  EXPECT_EQ(content->models, (std::vector<ModelSpec>{TestModel("a", 100), TestModel("c", 300)}));
}

TEST_F(CatalogStoreTest, TwoCoordinatorsCannotShareADirectory) {
  const auto store = MustOpen();
  const auto second = OpenCatalogStore(dir_);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("in use"));
}

TEST_F(CatalogStoreTest, AFileInPlaceOfTheDirectoryIsAnError) {
  std::ofstream(dir_) << "x";
  const auto store = OpenCatalogStore(dir_);
  EXPECT_EQ(store.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(store.status().message()), HasSubstr(dir_));
}

TEST_F(CatalogStoreTest, ARecordOfAnotherVersionOrKindIsRefused) {
  Fill();
  Write("model/a", "\x01{}garbage");
  EXPECT_EQ(OpenCatalogStore(dir_).status().code(), absl::StatusCode::kDataLoss);
  // Without the summary the record speaks for itself.
  fs::remove(dir_ + "/catalog-summary");
  const auto damaged = MustOpen()->Load();
  EXPECT_EQ(damaged.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(damaged.status().message()), HasSubstr("model/a"));
}

// With the right checksum, so that only the digits themselves can tell.
TEST_F(CatalogStoreTest, AnAddressThatIsNotHexadecimalIsRefused) {
  for (const absl::string_view address : {"6g", "613", "61 31"}) {
    Fill();
    const std::string text = absl::StrCat(
        R"({"expected_shards":1,"topology_version":1,"dealt_weights":[1.0],"shards":[{"shard":0,)",
        R"("address":")", address, R"(","capacity_weight":1.0,"generation":1,)",
        R"("instance_id":"00","left":false}]})");
    std::string value = absl::StrCat("\x01", text);
    const uint32_t crc = ExtendCrc32c(ExtendCrc32c(0, "membership"), value);
    for (int i = 0; i < 4; ++i) value.push_back(static_cast<char>((crc >> (8 * i)) & 0xff));
    Write("membership", value);
    fs::remove(dir_ + "/catalog-summary");
    const auto content = MustOpen()->Load();
    EXPECT_EQ(content.status().code(), absl::StatusCode::kDataLoss) << address;
    EXPECT_THAT(std::string(content.status().message()),
                HasSubstr(absl::StrCat("a shard's address is '", address, "'")));
    fs::remove_all(dir_);
  }
}

TEST_F(CatalogStoreTest, AMissingFileIsNoNewCluster) {
  Fill();
  fs::remove(dir_ + "/catalog/CURRENT");
  const auto store = OpenCatalogStore(dir_);
  EXPECT_EQ(store.status().code(), absl::StatusCode::kDataLoss) << store.status();
  EXPECT_THAT(std::string(store.status().message()), HasSubstr("no file CURRENT"));
}

// Every damaged byte of every file is either noticed or harmless; never is something else loaded.
TEST_F(CatalogStoreTest, FlippedBitsAreNoticed) {
  Fill();
  const auto expected = MustOpen()->Load();
  ASSERT_TRUE(expected.ok());
  const std::string pristine = dir_ + ".pristine";
  fs::copy(dir_, pristine, fs::copy_options::recursive);
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(pristine)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_regular_file() && entry.file_size() > 0 && name.rfind("LOG", 0) != 0) {
      files.push_back(fs::relative(entry.path(), pristine));
    }
  }
  CounterRng rng(5);
  int noticed = 0;
  for (int round = 0; round < 60; ++round) {
    fs::remove_all(dir_);
    fs::copy(pristine, dir_, fs::copy_options::recursive);
    const fs::path path = fs::path(dir_) / files[static_cast<size_t>(round) % files.size()];
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    const auto place = static_cast<int64_t>(rng.NextBelow(fs::file_size(path)));
    file.seekg(place);
    const char byte = static_cast<char>(file.get());
    file.seekp(place);
    file.put(static_cast<char>(byte ^ (1 << rng.NextBelow(8))));
    file.close();
    const auto store = OpenCatalogStore(dir_);
    if (!store.ok()) {
      ++noticed;
      continue;
    }
    const auto content = (*store)->Load();
    if (!content.ok()) {
      ++noticed;
      continue;
    }
    ASSERT_EQ(content->models, expected->models) << path << " byte " << place;
    ASSERT_EQ(content->membership, expected->membership) << path << " byte " << place;
  }
  EXPECT_GT(noticed, 20) << "the flips did not hit anything";
  fs::remove_all(pristine);
}

// RocksDB starts without a word when its list of files ends too early; what is missing is noticed.
TEST_F(CatalogStoreTest, AnOlderDatabaseIsNoticed) {
  { MustOpen()->PutMembership(Record()).IgnoreError(); }
  fs::copy(fs::path(dir_) / "catalog", fs::path(dir_) / "older", fs::copy_options::recursive);
  {
    const auto store = MustOpen();
    ASSERT_TRUE(store->PutModel(TestModel("a", 100)).ok());
    ASSERT_TRUE(store->PutModel(TestModel("b", 200)).ok());
  }
  fs::remove_all(fs::path(dir_) / "catalog");
  fs::rename(fs::path(dir_) / "older", fs::path(dir_) / "catalog");
  const auto opened = OpenCatalogStore(dir_);
  EXPECT_TRUE(absl::IsDataLoss(opened.status())) << opened.status();
  EXPECT_THAT(std::string(opened.status().message()), HasSubstr("a part of it is lost"));
  // A person may decide otherwise.
  fs::remove(fs::path(dir_) / "catalog-summary");
  EXPECT_TRUE(OpenCatalogStore(dir_).ok());
}

// The process may die between the summary and the database.
TEST_F(CatalogStoreTest, AChangeThatWasOnlyAnnouncedDoesNoHarm) {
  { MustOpen()->PutMembership(Record()).IgnoreError(); }
  fs::copy(fs::path(dir_) / "catalog", fs::path(dir_) / "older", fs::copy_options::recursive);
  { ASSERT_TRUE(MustOpen()->PutModel(TestModel("a", 100)).ok()); }
  fs::remove_all(fs::path(dir_) / "catalog");
  fs::rename(fs::path(dir_) / "older", fs::path(dir_) / "catalog");
  const auto content = MustOpen()->Load();
  ASSERT_TRUE(content.ok());
  EXPECT_TRUE(content->models.empty());
}

TEST_F(CatalogStoreTest, NoticesFlippedBytesOfTheSummary) {
  Fill();
  const std::string path = absl::StrCat(dir_, "/catalog-summary");
  std::ifstream file(path, std::ios::binary);
  const std::string good{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  for (size_t i = 0; i < good.size(); i += 5) {
    std::string bad = good;
    bad[i] ^= 0x10;
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bad;
    EXPECT_TRUE(absl::IsDataLoss(OpenCatalogStore(dir_).status())) << i;
  }
}

}  // namespace
}  // namespace dslide::coordinator
