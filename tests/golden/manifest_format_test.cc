// Manifests of cluster checkpoints, and the marks beside them, as earlier programs have written
// them.

#include "services/coordinator/checkpoints/manifest_store.h"
#include "tests/golden/format_files.h"
#include "tests/golden/golden_cluster.h"

namespace dslide::golden {
namespace {

using coordinator::Manifest;
using coordinator::ManifestStore;
using dslide::CheckpointPart;

constexpr char kManifestFormatKept[] = "manifest-v1";

class ManifestFormatTest : public FormatTest {
 protected:
  static std::unique_ptr<ManifestStore> MustOpen(const std::string& data_dir) {
    auto store = ManifestStore::Open(data_dir);
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }
  static std::string PathOf(const std::string& data_dir, const std::string& name) {
    return absl::StrCat(data_dir, "/checkpoints/", name);
  }
  static constexpr char kName[] = "MANIFEST-00000000000000000007";
};

void ExpectEqual(const CheckpointPart& a, const CheckpointPart& b) {
  EXPECT_EQ(a.shard, b.shard);
  EXPECT_EQ(a.generation, b.generation);
  EXPECT_EQ(a.rows, b.rows);
  EXPECT_EQ(a.files, b.files);
  EXPECT_EQ(a.bytes, b.bytes);
  EXPECT_EQ(a.files_checksum, b.files_checksum);
  EXPECT_EQ(a.base_checkpoint_id, b.base_checkpoint_id);
  EXPECT_EQ(a.full_checkpoint_id, b.full_checkpoint_id);
  EXPECT_EQ(a.increments, b.increments);
  EXPECT_EQ(a.written_bytes, b.written_bytes);
}

TEST_F(ManifestFormatTest, ComesBackAsItWas) {
  const auto store = MustOpen(CopyOf(kManifestFormatKept));
  EXPECT_THAT(store->List(), ::testing::ElementsAre(kManifestCheckpoint, kDamagedEpoch));
  EXPECT_EQ(store->RestoreCount(), kRestoreCount);
  EXPECT_EQ(store->restore_mark().checkpoint_id(), kManifestCheckpoint);
  EXPECT_EQ(store->Damage(kDamagedEpoch), kDamage);
  EXPECT_EQ(store->Damage(kManifestCheckpoint), "");
  const auto read = store->Read(kManifestCheckpoint);
  ASSERT_TRUE(read.ok()) << read.status();
  const Manifest golden = GoldenManifest();
  EXPECT_EQ(read->checkpoint_id, golden.checkpoint_id);
  EXPECT_EQ(read->created_unix_ms, golden.created_unix_ms);
  EXPECT_EQ(read->topology_version, golden.topology_version);
  EXPECT_EQ(read->restore_count, golden.restore_count);
  ASSERT_EQ(read->parts.size(), golden.parts.size());
  for (size_t i = 0; i < golden.parts.size(); ++i) ExpectEqual(read->parts[i], golden.parts[i]);
  EXPECT_EQ(read->models, golden.models);
  EXPECT_EQ(read->jobs, golden.jobs);
  ASSERT_EQ(read->steps.size(), golden.steps.size());
  for (size_t i = 0; i < golden.steps.size(); ++i) {
    EXPECT_EQ(read->steps[i].client, golden.steps[i].client);
    EXPECT_EQ(read->steps[i].step, golden.steps[i].step);
  }
  EXPECT_EQ(read->evicted, golden.evicted);
  EXPECT_EQ(read->stall_us, golden.stall_us);
  EXPECT_EQ(read->duration_us, golden.duration_us);
}

// Fails when the layout changes and its version does not.
TEST_F(ManifestFormatTest, TodaysProgramsWriteTheSame) {
  const std::string kept = CopyOf(kManifestFormatKept);
  const std::string fresh = Path("again");
  std::filesystem::create_directories(fresh);
  const auto store = MustOpen(fresh);
  ASSERT_TRUE(store->Commit(GoldenManifest()).ok());
  ASSERT_TRUE(store->MarkDamage(kDamagedEpoch, kDamage).ok());
  ASSERT_TRUE(store->CommitRestoreCount(kRestoreCount).ok());
  ASSERT_TRUE(store->KeepEvicted(GoldenManifest().evicted).ok());
  ASSERT_TRUE(store->restore_mark().Begin(kManifestCheckpoint).ok());
  for (const char* name :
       {kName, "DAMAGED-00000000000000000005", "EVICTED", "RESTORE_COUNT", "RESTORING"}) {
    EXPECT_EQ(Read(PathOf(fresh, name)), Read(PathOf(kept, name))) << name;
  }
}

// An optional part: what comes from before it says nothing of assets.
TEST_F(ManifestFormatTest, AssetsComeBackWhereAManifestNamesThem) {
  EXPECT_EQ(MustOpen(CopyOf(kManifestFormatKept))->Read(kManifestCheckpoint)->assets, std::nullopt);
  const std::string kept = CopyOf("manifest-v1-assets");
  EXPECT_EQ(MustOpen(kept)->Read(kManifestCheckpoint)->assets, GoldenManifestWithAssets().assets);
  const std::string fresh = Path("again");
  std::filesystem::create_directories(fresh);
  ASSERT_TRUE(MustOpen(fresh)->Commit(GoldenManifestWithAssets()).ok());
  EXPECT_EQ(Read(PathOf(fresh, kName)), Read(PathOf(kept, kName)));
}

TEST_F(ManifestFormatTest, ManifestsOfOtherVersionsAreRefused) {
  for (const int64_t version : {0, 2}) {
    const std::string data_dir = CopyOf(kManifestFormatKept);
    const std::string path = PathOf(data_dir, kName);
    const std::string text(UnsealOpenText(Read(path)).value());
    Write(path, SealOpenText(
                    Patched(text, "\"format\": 1,", absl::StrCat("\"format\": ", version, ","))));
    const auto store = MustOpen(data_dir);
    ExpectOtherVersion(store->Read(kManifestCheckpoint).status(), path, version, "format 1");
    ExpectOtherVersion(store->ReadText(kManifestCheckpoint).status(), path, version, "format 1");
    EXPECT_TRUE(store->Read(kDamagedEpoch).ok());
  }
}

TEST_F(ManifestFormatTest, MarksOfOtherVersionsAreRefused) {
  for (const auto& [name, word] :
       {std::pair{"RESTORE_COUNT", "dslide restore count"}, {"RESTORING", "dslide restoring"}}) {
    for (const int64_t version : {0, 2}) {
      const std::string data_dir = CopyOf(kManifestFormatKept);
      const std::string path = PathOf(data_dir, name);
      const std::string text(UnsealText(Read(path)).value());
      Write(path, SealText(Patched(text, absl::StrCat(word, " 1\n"),
                                   absl::StrCat(word, " ", version, "\n"))));
      ExpectOtherVersion(ManifestStore::Open(data_dir).status(), path, version, "format 1");
    }
  }
}

TEST_F(ManifestFormatTest, ClientsGivenUpComeBackAndOtherVersionsAreRefused) {
  EXPECT_EQ(MustOpen(CopyOf(kManifestFormatKept))->Evicted(), GoldenManifest().evicted);
  for (const int64_t version : {0, 2}) {
    const std::string data_dir = CopyOf(kManifestFormatKept);
    const std::string path = PathOf(data_dir, "EVICTED");
    const std::string text(UnsealText(Read(path)).value());
    Write(path, SealText(Patched(text, "evicted clients 1\n",
                                 absl::StrCat("evicted clients ", version, "\n"))));
    ExpectOtherVersion(ManifestStore::Open(data_dir).status(), path, version, "format 1");
  }
}

// What is wrong may be said in words that are not known here; that something is must not be lost.
TEST_F(ManifestFormatTest, AMarkOfDamageOfAnyVersionIsOne) {
  for (const int64_t version : {0, 2}) {
    const std::string data_dir = CopyOf(kManifestFormatKept);
    PatchText(PathOf(data_dir, "DAMAGED-00000000000000000005"), "dslide damaged checkpoint 1\n",
              absl::StrCat("dslide damaged checkpoint ", version, "\n"));
    EXPECT_EQ(MustOpen(data_dir)->Damage(kDamagedEpoch), "a verification failed");
  }
}

}  // namespace
}  // namespace dslide::golden
