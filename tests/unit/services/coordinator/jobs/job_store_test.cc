// Jobs on a disk.

#include "services/coordinator/jobs/job_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/system/sealed_text.h"
#include "services/common/files/durable_files.h"

namespace dslide::coordinator {
namespace {

using ::testing::HasSubstr;

class JobStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = absl::StrCat(::testing::TempDir(), "job_store.", getpid());
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
    store_ = OpenJobStore(directory_).value();
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  static JobState Sample(const std::string& name, uint64_t number) {
    JobState state;
    state.number = number;
    state.record.spec = {.job = name,
                         .model = "m",
                         .samples_per_epoch = 100,
                         .chunk_samples = 10,
                         .max_epochs = 3,
                         .evaluate = true,
                         .seed = 0xffffffffffffffff,
                         .staged = true};
    state.record.epoch = 1;
    state.record.stage = JobStage::kTraining;
    state.record.done = {{0, 2}, {4, 1}};
    state.record.best_epoch = 0;
    state.record.best_metric = 0.1234567890123;
    state.next_lease = 1'795'709'763'656'697;
    state.leases = {{.lease = 7, .client = {1, 255}, .chunk = 3},
                    {.lease = 9, .chunk = 5, .over = true}};
    return state;
  }
  std::string PathOf(const std::string& job) const {
    return absl::StrCat(directory_, "/jobs/", job);
  }
  void Write(const std::string& job, const std::string& text) const {
    std::ofstream(PathOf(job), std::ios::binary) << text;
  }

  std::string directory_;
  std::unique_ptr<JobStore> store_;
};

TEST_F(JobStoreTest, JobsComeBackAsTheyWereTheOldestFirst) {
  ASSERT_TRUE(store_->Put(Sample("b", 1)).ok());
  ASSERT_TRUE(store_->Put(Sample("a", 2)).ok());
  JobState changed = Sample("b", 1);
  changed.record.finished = true;
  ASSERT_TRUE(store_->Put(changed).ok());
  store_ = OpenJobStore(directory_).value();
  const auto states = store_->Load();
  ASSERT_TRUE(states.ok()) << states.status();
  EXPECT_THAT(*states, ::testing::ElementsAre(changed, Sample("a", 2)));
  EXPECT_EQ(InspectJobs(directory_).value(), 2);
  ASSERT_TRUE(store_->Remove("b").ok());
  ASSERT_TRUE(store_->Remove("b").ok()) << "gone is gone";
  EXPECT_THAT(store_->Load().value(), ::testing::ElementsAre(Sample("a", 2)));
}

TEST_F(JobStoreTest, WhatIsNotWhatWasWrittenIsRefusedByName) {
  ASSERT_TRUE(store_->Put(Sample("a", 1)).ok());
  const std::string good = ReadFile(PathOf("a")).value();
  for (size_t i = 0; i < good.size(); i += 7) {
    std::string bad = good;
    bad[i] ^= 0x04;
    Write("a", bad);
    const absl::Status refused = store_->Load().status();
    EXPECT_TRUE(absl::IsDataLoss(refused)) << i << ": " << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr(PathOf("a")));
  }
  Write("a", good);
  Write("other", good);
  EXPECT_THAT(std::string(store_->Load().status().message()), HasSubstr("files were swapped"));
}

TEST_F(JobStoreTest, AFileThatWasBeingWrittenCountsForNothing) {
  ASSERT_TRUE(store_->Put(Sample("a", 1)).ok());
  Write("b.new", "half");
  EXPECT_EQ(store_->Load().value().size(), 1u);
}

TEST_F(JobStoreTest, AnotherVersionsFilesAreNotDamage) {
  ASSERT_TRUE(store_->Put(Sample("a", 1)).ok());
  std::string text(UnsealOpenText(ReadFile(PathOf("a")).value()).value());
  text.replace(text.find("\"format\": 1"), 11, "\"format\": 2");
  Write("a", SealOpenText(text));
  const absl::Status refused = store_->Load().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("format 2"));
}

TEST_F(JobStoreTest, ADirectoryWithoutJobsIsSaidToBe) {
  EXPECT_TRUE(absl::IsNotFound(InspectJobs(directory_ + "/none").status()));
}

}  // namespace
}  // namespace dslide::coordinator
