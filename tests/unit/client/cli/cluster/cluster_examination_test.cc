#include "client/cli/cluster/cluster_examination.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace dslide::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kHere[] = "coordinator at c:1";

ShardInfo Shard(int32_t number, ShardHealth life = ShardHealth::kAlive) {
  ShardInfo entry;
  entry.shard = ShardId(number);
  entry.address = absl::StrCat("s", number, ":1");
  entry.generation = 3;
  entry.health = life;
  return entry;
}

ClusterStatus Healthy() {
  ClusterStatus status;
  status.version = "1.2.3";
  status.revision = "abc";
  status.expected_shards = 2;
  status.shards = {Shard(0), Shard(1)};
  status.models = {"m"};
  status.checkpoints = CheckpointStatus{.last_checkpoint_id = 4,
                                        .age = absl::Seconds(30),
                                        .interval = absl::Minutes(2),
                                        .failures = 0,
                                        .scrub_age = absl::Hours(3),
                                        .scrub_interval = absl::Hours(24)};
  return status;
}

ShardServerInfo InfoOf(int32_t number) {
  ShardServerInfo info;
  info.version = "1.2.3";
  info.revision = "abc";
  info.shard = ShardId(number);
  info.generation = 3;
  return info;
}

std::vector<ClusterCheckpoint> Committed() {
  std::vector<ClusterCheckpoint> committed(2);
  committed[0].checkpoint_id = 4;
  committed[1].checkpoint_id = 3;
  return committed;
}

Findings OfStatus(const ClusterStatus& status) {
  Findings findings;
  JudgeStatus(kHere, status, {"1.2.3", "abc"}, findings);
  return findings;
}
Findings OfShard(const absl::StatusOr<ShardServerInfo>& info) {
  Findings findings;
  JudgeShard(Shard(1), info, Healthy(), findings);
  return findings;
}
Findings OfCheckpoints(const ClusterStatus& status,
                       const absl::StatusOr<std::vector<ClusterCheckpoint>>& committed) {
  Findings findings;
  JudgeCheckpoints(kHere, status, committed, findings);
  return findings;
}
Findings OfPage(const std::string& text) {
  Findings findings;
  JudgePage("s1:2", *MetricsText::Parse(text), absl::FromUnixSeconds(1'000'000), findings);
  return findings;
}

// The gravest finding; each that is worth a warning says what to do.
Finding Worst(const Findings& findings) {
  Finding worst;
  for (const Finding& finding : findings.all()) {
    if (finding.severity >= Severity::kWarning) {
      EXPECT_NE(finding.remedy, "") << finding.what;
    }
    if (finding.severity > worst.severity) worst = finding;
  }
  return worst;
}

TEST(ClusterExaminationTest, AHealthyClusterIsAllRight) {
  EXPECT_EQ(OfStatus(Healthy()).worst(), Severity::kOk);
  EXPECT_EQ(OfShard(InfoOf(1)).worst(), Severity::kOk);
  EXPECT_EQ(OfCheckpoints(Healthy(), Committed()).worst(), Severity::kOk);
}

TEST(ClusterExaminationTest, MissingShardsAreErrors) {
  ClusterStatus status = Healthy();
  status.shards[1].health = ShardHealth::kLost;
  Finding worst = Worst(OfStatus(status));
  EXPECT_EQ(worst.severity, Severity::kError);
  EXPECT_EQ(worst.code, absl::StatusCode::kUnavailable);
  EXPECT_EQ(worst.where, "shard 1 at s1:1");
  status.shards[1].health = ShardHealth::kLeft;
  EXPECT_THAT(Worst(OfStatus(status)).what, HasSubstr("left"));
  status.shards.pop_back();
  EXPECT_THAT(Worst(OfStatus(status)).what, HasSubstr("1 of 2 shards have never registered"));
}

TEST(ClusterExaminationTest, JobsWithoutTrainersAreWarnings) {
  ClusterStatus status = Healthy();
  status.jobs.resize(1);
  status.jobs[0].job = "night";
  EXPECT_EQ(Worst(OfStatus(status)).where, "job night");
  status.jobs[0].trainers = 1;
  EXPECT_EQ(OfStatus(status).worst(), Severity::kOk);
  status.jobs[0].trainers = 0;
  status.jobs[0].finished = true;
  EXPECT_EQ(OfStatus(status).worst(), Severity::kOk);
}

TEST(ClusterExaminationTest, OtherBuildsAndReturnsAreSaid) {
  ClusterStatus status = Healthy();
  status.revision = "def";
  EXPECT_EQ(OfStatus(status).worst(), Severity::kNote);
  status = Healthy();
  status.restore_count = 2;
  EXPECT_THAT(Worst(OfStatus(status)).what, HasSubstr("taken back to a checkpoint 2 times"));
  ShardServerInfo info = InfoOf(1);
  info.version = "1.2.2";
  EXPECT_EQ(Worst(OfShard(info)).severity, Severity::kWarning);
}

TEST(ClusterExaminationTest, AnotherProcessOnAShardsAddressIsAnError) {
  ShardServerInfo info = InfoOf(1);
  info.generation = 2;
  EXPECT_THAT(Worst(OfShard(info)).what,
              AllOf(HasSubstr("generation 2"), HasSubstr("knows generation 3")));
  EXPECT_EQ(Worst(OfShard(InfoOf(0))).severity, Severity::kError);
}

TEST(ClusterExaminationTest, FailedCallsSayWhatToDo) {
  Finding worst = Worst(OfShard(absl::UnavailableError("connection refused")));
  EXPECT_EQ(worst.code, absl::StatusCode::kUnavailable);
  EXPECT_EQ(worst.what, "connection refused");
  worst = Worst(OfShard(absl::PermissionDeniedError("role trainer may not")));
  EXPECT_THAT(worst.remedy, HasSubstr("reader or operator"));
}

TEST(ClusterExaminationTest, NothingToGoBackToIsAWarning) {
  ClusterStatus status = Healthy();
  EXPECT_THAT(Worst(OfCheckpoints(status, std::vector<ClusterCheckpoint>())).remedy,
              HasSubstr("dslide checkpoint create"));
  status.models.clear();
  EXPECT_EQ(OfCheckpoints(status, std::vector<ClusterCheckpoint>()).worst(), Severity::kOk);
  status.checkpoints.reset();
  EXPECT_THAT(Worst(OfCheckpoints(status, Committed())).remedy, HasSubstr("--data-dir"));
}

TEST(ClusterExaminationTest, DamagedCheckpointsAreLostState) {
  std::vector<ClusterCheckpoint> committed = Committed();
  committed[0].damage = "shard 1: a file is gone";
  const Finding worst = Worst(OfCheckpoints(Healthy(), committed));
  EXPECT_EQ(worst.code, absl::StatusCode::kDataLoss);
  EXPECT_EQ(worst.where, "cluster checkpoint 4");
  EXPECT_EQ(Worst(OfCheckpoints(Healthy(), absl::DataLossError("MANIFEST-3"))).code,
            absl::StatusCode::kDataLoss);
}

TEST(ClusterExaminationTest, LateAndFailedCheckpointsAreWarnings) {
  ClusterStatus status = Healthy();
  status.checkpoints->age = absl::Hours(2);
  // Nobody works: there is nothing new to keep.
  EXPECT_EQ(OfCheckpoints(status, Committed()).worst(), Severity::kOk);
  status.jobs.resize(1);
  status.jobs[0].trainers = 1;
  EXPECT_THAT(Worst(OfCheckpoints(status, Committed())).what,
              AllOf(HasSubstr("2h"), HasSubstr("every 2m")));
  status.checkpoints->age = absl::Minutes(5);
  EXPECT_EQ(OfCheckpoints(status, Committed()).worst(), Severity::kOk);
  status.checkpoints->failures = 3;
  EXPECT_THAT(Worst(OfCheckpoints(status, Committed())).what, HasSubstr("3 cluster checkpoints"));
}

TEST(ClusterExaminationTest, UnverifiedCheckpointsAreSaid) {
  ClusterStatus status = Healthy();
  status.checkpoints->scrub_age = absl::Hours(50);
  EXPECT_EQ(OfCheckpoints(status, Committed()).worst(), Severity::kWarning);
  status.checkpoints->scrub_interval = absl::ZeroDuration();
  EXPECT_EQ(OfCheckpoints(status, Committed()).worst(), Severity::kNote);
}

TEST(ClusterExaminationTest, PagesTellOfTrouble) {
  EXPECT_THAT(OfPage("dslide_coordinator_shard_log_failures_total{shard=\"0\"} 0\n"
                     "dslide_server_ready 1\n")
                  .all(),
              IsEmpty());
  EXPECT_THAT(Worst(OfPage("dslide_coordinator_shard_log_failures_total{shard=\"0\"} 1\n")).what,
              HasSubstr("ended 1 times because their command log had failed"));
  EXPECT_THAT(Worst(OfPage("dslide_shard_refused_requests_total{reason=\"DISK_FULL\"} 7\n"
                           "dslide_shard_refused_requests_total{reason=\"QUEUE_FULL\"} 9\n"))
                  .what,
              HasSubstr("7 updates were refused because its disk was full"));
  EXPECT_EQ(Worst(OfPage("dslide_shard_acked_loss_total 2\n")).code, absl::StatusCode::kDataLoss);
  EXPECT_EQ(OfPage("dslide_shard_recovery_damaged_images 1\n").worst(), Severity::kWarning);
  EXPECT_EQ(Worst(OfPage("dslide_coordinator_checkpoints_damaged 1\n")).code,
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(OfPage("dslide_server_ready 0\n").worst(), Severity::kError);
  EXPECT_EQ(OfPage("dslide_server_insecure 1\n").worst(), Severity::kWarning);
}

TEST(ClusterExaminationTest, CertificatesAreJudgedByWhatIsLeft) {
  const auto with_days = [](int64_t days) {
    return OfPage(absl::StrCat("dslide_tls_certificate_expiry_timestamp_seconds ",
                               1'000'000 + days * 86400, "\n"));
  };
  EXPECT_EQ(with_days(300).worst(), Severity::kOk);
  EXPECT_EQ(with_days(10).worst(), Severity::kNote);
  EXPECT_EQ(with_days(1).worst(), Severity::kWarning);
  EXPECT_EQ(with_days(-1).worst(), Severity::kError);
  EXPECT_THAT(OfPage("dslide_tls_certificate_expiry_timestamp_seconds +Inf\n").all(), IsEmpty());
}

}  // namespace
}  // namespace dslide::cli
