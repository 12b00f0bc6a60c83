#include "core/net/tls/tls_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <iterator>
#include <thread>

#include "absl/time/clock.h"
#include "core/net/tls/memory_file.h"
#include "tests/unit/core/net/tls/test_certificates.h"
#include "tests/unit/patience.h"

namespace dslide {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

std::string Read(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

TEST(MemoryFileTest, ReadersSeeOneTextOrTheOther) {
  MemoryFile file;
  const std::string first(100'000, 'a');
  const std::string second(100'000, 'b');
  ASSERT_TRUE(file.Replace(first).ok());
  const std::string path = file.path();
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (int i = 0; !stop; ++i) EXPECT_TRUE(file.Replace(i % 2 == 0 ? second : first).ok());
  });
  for (int i = 0; i < 500; ++i) {
    const std::string text = Read(path);
    if (text != first && text != second) ADD_FAILURE() << "a mixture of " << text.size();
  }
  stop = true;
  writer.join();
  EXPECT_EQ(file.path(), path);
}

TEST(MemoryFileTest, EachVersionHasATimeOfItsOwnInSeconds) {
  MemoryFile file;
  struct stat before {};
  struct stat after {};
  ASSERT_TRUE(file.Replace("a").ok());
  ASSERT_EQ(::stat(file.path().c_str(), &before), 0);
  ASSERT_TRUE(file.Replace("b").ok());
  ASSERT_EQ(::stat(file.path().c_str(), &after), 0);
  EXPECT_NE(before.st_mtim.tv_sec, 0);
  EXPECT_NE(before.st_mtim.tv_sec, after.st_mtim.tv_sec);
  EXPECT_EQ(after.st_mode & 077, 0u);
}

TEST(MemoryFileTest, TheTextOutlivesTheObject) {
  std::string path;
  {
    MemoryFile file;
    ASSERT_TRUE(file.Replace("kept").ok());
    path = file.path();
  }
  EXPECT_EQ(Read(path), "kept");
}

class TlsStoreTest : public ::testing::Test {
 protected:
  void Open() {
    auto store = TlsStore::Open(files_, absl::Milliseconds(5));
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  // Waits until `value()` is at least 1.
  template <typename Value>
  static void Await(Value value) {
    ASSERT_TRUE(Eventually([&] { return value() >= 1; }));
  }

  TestDirectory directory_;
  TestAuthority authority_;
  TlsFiles files_ = authority_.Write(directory_, "shard");
  std::shared_ptr<TlsStore> store_;
};

TEST_F(TlsStoreTest, OffersCopiesOfTheFiles) {
  Open();
  EXPECT_THAT(Read(store_->identity_path()), HasSubstr(Read(files_.cert)));
  EXPECT_THAT(Read(store_->identity_path()), HasSubstr(Read(files_.key)));
  EXPECT_EQ(Read(store_->ca_path()), authority_.ca());
  EXPECT_LT(store_->expires(), absl::Now() + absl::Hours(1));
}

TEST_F(TlsStoreTest, ABadFirstSetIsAnError) {
  directory_.Write("shard.crt", "nothing");
  EXPECT_EQ(TlsStore::Open(files_, absl::Seconds(1)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(TlsStoreTest, ARenewedSetReplacesTheOldOneAtTheSamePath) {
  Open();
  const std::string path = store_->identity_path();
  const absl::Time before = store_->expires();
  CertificateSpec spec = SpecOf("shard");
  spec.not_after += absl::Minutes(30);
  const IssuedCertificate renewed = authority_.Issue(spec);
  directory_.Write("shard.key", renewed.key);
  directory_.Write("shard.crt", renewed.certificate);
  Await([this] { return store_->reloads(); });
  EXPECT_EQ(store_->identity_path(), path);
  EXPECT_THAT(Read(path), HasSubstr(renewed.certificate));
  EXPECT_THAT(Read(path), HasSubstr(renewed.key));
  EXPECT_GT(store_->expires(), before);
}

TEST_F(TlsStoreTest, ABadSetIsCountedAndTheGoodOneStays) {
  Open();
  const std::string good = Read(store_->identity_path());
  directory_.Write("shard.key", Read(files_.key).substr(0, 60));
  Await([this] { return store_->refusals(); });
  EXPECT_EQ(Read(store_->identity_path()), good);
  EXPECT_EQ(store_->reloads(), 0);
}

TEST_F(TlsStoreTest, ARemovedFileLeavesTheGoodSet) {
  Open();
  const std::string good = Read(store_->ca_path());
  std::filesystem::remove(files_.ca);
  Await([this] { return store_->refusals(); });
  EXPECT_EQ(Read(store_->ca_path()), good);
}

TEST_F(TlsStoreTest, AfterABadSetAGoodOneIsTaken) {
  Open();
  directory_.Write("shard.crt", "damaged");
  Await([this] { return store_->refusals(); });
  const IssuedCertificate renewed = authority_.Issue(SpecOf("shard"));
  directory_.Write("shard.key", renewed.key);
  directory_.Write("shard.crt", renewed.certificate);
  Await([this] { return store_->reloads(); });
  EXPECT_THAT(Read(store_->identity_path()), HasSubstr(renewed.certificate));
}

}  // namespace
}  // namespace dslide
