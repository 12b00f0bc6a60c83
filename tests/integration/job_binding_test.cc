// Trainers whose certificates name jobs: what they may do on both planes, and what is refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/reason.h"
#include "core/net/tls/certificate_jobs.h"
#include "core/protocol/access_reason_words.h"
#include "tests/integration/raw_trainer.h"
#include "tests/integration/secured_cluster.h"

namespace dslide {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class JobBindingTest : public SecuredClusterTest {
 protected:
  // A trainer's certificate with these URI names.
  TlsFiles Files(const std::string& name, std::vector<std::string> uris) const {
    CertificateSpec spec = SpecOf("trainer");
    spec.common_name = name;
    spec.uris = std::move(uris);
    return certificates_.authority().Write(certificates_.directory(), name, spec);
  }
  std::unique_ptr<ClusterClient> Holder(const std::string& name,
                                        std::vector<std::string> uris) const {
    return *Connect({.tls = Files(name, std::move(uris))});
  }
};

TEST_F(JobBindingTest, ATrainerIsHeldToTheJobsInItsCertificate) {
  const TlsFiles bound = Files("ann", {JobUri("dslide", "run-1"), JobUri("dslide", "run-2")});
  const std::string shard = shards_[0]->runtime().address();
  const std::string client(16, 'a');
  for (const std::string job : {"run-1", "run-2"}) {
    const std::string own(16, job.back());
    const RawTrainer ann(shard, bound, job);
    EXPECT_TRUE(ann.Hello(own).ok());
    EXPECT_EQ(ann.Step(own), static_cast<int>(grpc::StatusCode::NOT_FOUND)) << "no model";
    EXPECT_TRUE(ann.CloseClient(own).ok());
  }
  const RawTrainer astray(shard, bound, "run-3");
  const grpc::Status refused = astray.Hello(client);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(refused.error_message(), AllOf(HasSubstr("job \"run-3\" is not for this certificate"),
                                             HasSubstr("\"run-1\" or \"run-2\"")));
  EXPECT_EQ(astray.Scatter(client).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(astray.Step(client), static_cast<int>(grpc::StatusCode::PERMISSION_DENIED));
  EXPECT_EQ(astray.CloseClient(client).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  const std::string page = shards_[0]->metrics().Expose();
  EXPECT_THAT(
      page, AllOf(HasSubstr("dslide_shard_refused_requests_total{reason=\"JOB_NOT_ALLOWED\"} 4\n"),
                  HasSubstr("dslide_server_denied_calls_total 4\n")));
  // A refusal took nothing: the id is free for whoever may use it.
  const RawTrainer free(shard, Files("bob", {"dslide://dslide/trainer"}), "run-3");
  EXPECT_TRUE(free.Hello(client).ok());
  // The role beside it makes it no wider, and a limit that nobody understands allows nothing.
  for (const std::string limit :
       {"dslide://dslide/trainer/job/run-1", "dslide://dslide/trainer/x"}) {
    const RawTrainer both(shard, Files("both", {"dslide://dslide/trainer", limit}), "run-3");
    EXPECT_EQ(both.Hello(std::string(16, 'c')).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  }
}

TEST_F(JobBindingTest, TheCoordinatorKeepsTrainersToTheirJobs) {
  const auto ann = Holder("ann", {JobUri("dslide", "run-1")});
  const auto bob = Holder("bob", {JobUri("dslide", "run-2")});
  const auto both = Holder("both", {JobUri("dslide", "run-2"), "dslide://dslide/operator"});
  ASSERT_TRUE(ann->CreateModel(SmallModel()).ok());
  JobSpec settings;
  settings.job = "run-1";
  settings.model = "small";
  settings.samples_per_epoch = 10;
  settings.chunk_samples = 5;
  settings.max_epochs = 1;
  settings.patience_epochs = 1;
  WorkRequest work;
  work.job = "run-1";
  const ClientId client = NewClientId();
  work.client = client;
  const auto denied = [](const absl::Status& status) {
    return absl::IsPermissionDenied(status) && ReasonOf(status) == reason::kJobNotAllowed;
  };
  // While no job is known on a model, a coordinator cannot tell whose it is.
  EXPECT_TRUE(
      absl::IsFailedPrecondition(bob->coordinator().CreateCheckpoint("small", "best").status()));
  EXPECT_TRUE(denied(bob->coordinator().RegisterJob(settings, client).status()));
  ASSERT_TRUE(ann->coordinator().RegisterJob(settings, client).ok());
  EXPECT_TRUE(denied(bob->coordinator().AcquireWork(work).status()));
  EXPECT_TRUE(denied(bob->coordinator().LeaveJob("run-1", client)));
  EXPECT_TRUE(denied(bob->coordinator().CreateCheckpoint("small", "best").status()));
  const absl::Status restored = bob->coordinator().RestoreCheckpoint("small", "best").status();
  EXPECT_TRUE(denied(restored)) << restored;
  EXPECT_THAT(std::string(restored.message()),
              AllOf(HasSubstr("model \"small\""), HasSubstr("job \"run-1\""),
                    HasSubstr("for job \"run-2\"")));
  EXPECT_THAT(coordinator_->metrics().Expose(), HasSubstr("dslide_server_denied_calls_total 5\n"));
  // Those whose job it is, and operators, get as far as shards without a data directory let them.
  for (ClusterClient* may : {ann.get(), both.get()}) {
    for (const absl::Status& done :
         {may->coordinator().CreateCheckpoint("small", "best").status(),
          may->coordinator().RestoreCheckpoint("small", "best").status()}) {
      EXPECT_TRUE(absl::IsFailedPrecondition(done)) << done;
    }
  }
  EXPECT_TRUE(ann->coordinator().AcquireWork(work).ok());
  EXPECT_TRUE(ann->coordinator().LeaveJob("run-1", client).ok());
}

}  // namespace
}  // namespace dslide
