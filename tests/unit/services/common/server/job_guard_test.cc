#include "services/common/server/job_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/net/tls/certificate_jobs.h"
#include "core/protocol/access_reason_words.h"
#include "services/common/server/server_security.h"

namespace dslide {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kTrainer[] = "dslide://dslide/trainer";
constexpr char kRun1[] = "dslide://dslide/trainer/job/run-1";
constexpr char kRun2[] = "dslide://dslide/trainer/job/run-2";

PeerJobs Jobs(const std::vector<absl::string_view>& uris) { return PeerJobs(uris, "dslide"); }

TEST(PeerJobsTest, WithoutAJobInItACertificateIsForEveryJob) {
  for (const PeerJobs& jobs : {PeerJobs(), Jobs({}), Jobs({kTrainer, "dslide://dslide/reader"}),
                               Jobs({"dslide://other/trainer/job/run-1"})}) {
    EXPECT_FALSE(jobs.bound());
    EXPECT_TRUE(jobs.Allows("run-1"));
    EXPECT_EQ(jobs.ToString(), "every job");
  }
}

TEST(PeerJobsTest, WithJobsItIsForTheseAlone) {
  // The role without a job beside it makes it no wider.
  for (const PeerJobs& jobs : {Jobs({kRun1, kRun2}), Jobs({kTrainer, kRun2, kRun1})}) {
    EXPECT_TRUE(jobs.bound());
    EXPECT_TRUE(jobs.Allows("run-1"));
    EXPECT_TRUE(jobs.Allows("run-2"));
    for (const char* other : {"", "run-", "run-11", "run-3", "Run-1", "run-1 "}) {
      EXPECT_FALSE(jobs.Allows(other)) << other;
    }
  }
}

TEST(PeerJobsTest, ALimitThatCannotBeUnderstoodAllowsNoJob) {
  const PeerJobs jobs = Jobs({kTrainer, "dslide://dslide/trainer/run-1"});
  EXPECT_TRUE(jobs.bound());
  EXPECT_FALSE(jobs.Allows("run-1"));
  EXPECT_FALSE(jobs.Allows(""));
  EXPECT_EQ(jobs.ToString(), "no job");
}

TEST(PeerJobsTest, ManyJobsAreNotAllShown) {
  std::vector<std::string> uris;
  for (int i = 0; i < 13; ++i) uris.push_back(JobUri("dslide", absl::StrCat("job-", i)));
  uris[0] = "dslide://dslide/trainer/job/a\nb";
  const std::string shown = Jobs({uris.begin(), uris.end()}).ToString();
  EXPECT_THAT(shown, AllOf(HasSubstr("\"a\\nb\" or \"job-1\""), HasSubstr("or 3 others"),
                           Not(HasSubstr("job-10"))));
}

TEST(JobGuardTest, ARefusalNamesTheJobAndWhatIsAllowedAndIsCounted) {
  Metrics metrics;
  const JobGuard guard("dslide", metrics);
  const PeerJobs jobs = Jobs({kRun1, kRun2});
  EXPECT_TRUE(guard.Check(jobs, "run-1").ok());
  EXPECT_TRUE(guard.Check(PeerJobs(), "run-3").ok());
  EXPECT_THAT(metrics.Expose(), HasSubstr("dslide_server_denied_calls_total 0\n"));
  const absl::Status refused = guard.Check(jobs, "run-3\n");
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(ReasonOf(refused), reason::kJobNotAllowed);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("job \"run-3\\n\" is not for this certificate"),
                    HasSubstr("for job \"run-1\" or \"run-2\"")));
  EXPECT_THAT(metrics.Expose(), HasSubstr("dslide_server_denied_calls_total 1\n"));
}

TEST(JobGuardTest, WithoutAClusterThereIsNothingToCount) {
  Metrics metrics;
  const JobGuard guard("", metrics);
  EXPECT_THAT(metrics.Expose(), Not(HasSubstr("denied")));
}

TEST(JobGuardTest, JobsCountWhereRolesDo) {
  TlsSettings settings;
  EXPECT_EQ(settings.job_cluster(), "");
  settings.files.ca = "ca";
  EXPECT_EQ(settings.job_cluster(), "dslide");
  settings.authorization = "none";
  EXPECT_EQ(settings.job_cluster(), "");
}

}  // namespace
}  // namespace dslide
