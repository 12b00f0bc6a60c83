// The coordinator's catalogue as earlier programs have written it.

#include <rocksdb/db.h>

#include <cstring>

#include "core/base/crc32c.h"
#include "services/coordinator/models/catalog_store.h"
#include "tests/golden/format_files.h"
#include "tests/golden/golden_cluster.h"

namespace dslide::golden {
namespace {

constexpr char kKept[] = "catalog-v1";

class CatalogFormatTest : public FormatTest {
 protected:
  static absl::StatusOr<coordinator::CatalogContent> Load(const std::string& data_dir) {
    const auto store = coordinator::OpenCatalogStore(data_dir);
    if (!store.ok()) return store.status();
    return (*store)->Load();
  }
  // The database's records; `change` may change them.
  template <typename Change>
  static void WithDatabase(const std::string& data_dir, const Change& change) {
    rocksdb::DB* raw = nullptr;
    ASSERT_TRUE(rocksdb::DB::Open(rocksdb::Options(), data_dir + "/catalog", &raw).ok());
    const std::unique_ptr<rocksdb::DB> db(raw);
    change(*db);
  }
};

TEST_F(CatalogFormatTest, ComesBackAsItWas) {
  const std::string data_dir = CopyOf(kKept);
  EXPECT_EQ(coordinator::InspectCatalog(data_dir).value_or(-1), 2);
  const auto content = Load(data_dir);
  ASSERT_TRUE(content.ok()) << content.status();
  EXPECT_EQ(content->membership, GoldenMembership());
  EXPECT_EQ(content->models, GoldenModels());
}

// Fails when the layout changes and its version does not.
TEST_F(CatalogFormatTest, TodaysProgramsWriteTheSame) {
  const std::string data_dir = CopyOf(kKept);
  {
    const auto store = coordinator::OpenCatalogStore(Path("again"));
    ASSERT_TRUE(store.ok()) << store.status();
    ASSERT_TRUE((*store)->PutMembership(GoldenMembership()).ok());
    for (const ModelSpec& spec : GoldenModels()) ASSERT_TRUE((*store)->PutModel(spec).ok());
  }
  for (const char* key : {"membership", "model/golden", "model/other"}) {
    std::string kept, fresh;
    WithDatabase(data_dir, [&](rocksdb::DB& db) {
      EXPECT_TRUE(db.Get(rocksdb::ReadOptions(), key, &kept).ok());
    });
    WithDatabase(Path("again"), [&](rocksdb::DB& db) {
      EXPECT_TRUE(db.Get(rocksdb::ReadOptions(), key, &fresh).ok());
    });
    EXPECT_EQ(fresh, kept) << key;
  }
  EXPECT_EQ(Read(Path("again") + "/catalog-summary"), Read(data_dir + "/catalog-summary"));
}

TEST_F(CatalogFormatTest, RecordsOfOtherVersionsAreRefused) {
  for (const char version : {0, 2}) {
    for (const std::string key : {"membership", "model/golden"}) {
      const std::string data_dir = CopyOf(kKept);
      // It pins the records' bytes.
      std::filesystem::remove(data_dir + "/catalog-summary");
      WithDatabase(data_dir, [&](rocksdb::DB& db) {
        std::string value;
        ASSERT_TRUE(db.Get(rocksdb::ReadOptions(), key, &value).ok());
        value[0] = version;
        const size_t end = value.size() - sizeof(uint32_t);
        const uint32_t crc = ExtendCrc32c(ExtendCrc32c(0, key), value.substr(0, end));
        std::memcpy(value.data() + end, &crc, sizeof(crc));
        ASSERT_TRUE(db.Put(rocksdb::WriteOptions(), key, value).ok());
      });
      const std::string where = absl::StrCat("the catalogue's record ", key);
      ExpectOtherVersion(Load(data_dir).status(), where, version, "format 1");
      ExpectOtherVersion(coordinator::InspectCatalog(data_dir).status(), where, version,
                         "format 1");
    }
  }
}

TEST_F(CatalogFormatTest, SummariesOfOtherVersionsAreRefused) {
  for (const int64_t version : {0, 2}) {
    const std::string data_dir = CopyOf(kKept);
    const std::string path = data_dir + "/catalog-summary";
    PatchText(path, "dslide catalog 1\n", absl::StrCat("dslide catalog ", version, "\n"));
    ExpectOtherVersion(Load(data_dir).status(), path, version, "format 1");
  }
}

}  // namespace
}  // namespace dslide::golden
