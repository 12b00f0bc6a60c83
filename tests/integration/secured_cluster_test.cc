// A cluster whose parts know each other by certificates: who may call what, who is turned away, and
// what happens while certificates are renewed under load.

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "client/cpp/channel_factory.h"
#include "client/cpp/cluster_client.h"
#include "client/cpp/shard_stream.h"
#include "dslide/v1/shard.grpc.pb.h"
#include "services/common/server/roles.h"
#include "services/common/server/transport.h"
#include "tests/integration/raw_trainer.h"
#include "tests/integration/secured_cluster.h"
#include "tests/unit/core/net/tls/test_certificates.h"
#include "tests/unit/patience.h"

namespace dslide {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Both sides name the limit for themselves.
static_assert(kMaxMessageBytes == kTransportMessageBytes);

// A call of no bytes, whatever the method's kind is; it is cancelled after what an answer may take.
grpc::Status CallOfNothing(const std::shared_ptr<grpc::Channel>& channel,
                           const std::string& method) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
  const grpc::Slice slice;
  const grpc::ByteBuffer sent(&slice, 1);
  grpc::ByteBuffer received;
  absl::Notification done;
  grpc::Status status;
  stub.UnaryCall(&context, method, grpc::StubOptions(), &sent, &received, [&](grpc::Status s) {
    status = std::move(s);
    done.Notify();
  });
  done.WaitForNotification();
  return status;
}

bool IsOf(absl::string_view method, absl::string_view service) {
  return absl::StartsWith(method, absl::StrCat("/", service, "/")) ||
         absl::StartsWith(method, "/grpc.");
}

TEST_F(SecuredClusterTest, EveryCellOfTheTableOfRolesIsEnforced) {
  int cells = 0;
  for (const auto& [server, service] : Servers()) {
    for (const Role role : kAllRoles) {
      const auto channel = *NetworkChannels(Channels(RoleName(role)))(server);
      for (const MethodRoles& entry : RoleTable()) {
        // Endless by nature, and allowed to all: Check stands for it.
        if (!IsOf(entry.method, service) || absl::EndsWith(entry.method, "/Watch")) continue;
        const grpc::Status status = CallOfNothing(channel, entry.method);
        EXPECT_EQ(status.error_code() == grpc::StatusCode::PERMISSION_DENIED,
                  !entry.roles.Has(role))
            << RoleName(role) << " " << entry.method << ": " << status.error_code() << " "
            << status.error_message();
        if (!entry.roles.Has(role)) {
          EXPECT_THAT(status.error_message(),
                      AllOf(HasSubstr(RoleName(role)), HasSubstr(entry.method)));
        }
        ++cells;
      }
      EXPECT_EQ(CallOfNothing(channel, absl::StrCat("/", service, "/Unheard")).error_code(),
                grpc::StatusCode::PERMISSION_DENIED);
    }
  }
  EXPECT_EQ(cells, 5 * (31 + 27 + 2 * 3));
}

TEST_F(SecuredClusterTest, WithoutAGoodCertificateNoMethodIsReached) {
  TestAuthority foreign;
  CertificateSpec expired_spec = SpecOf("operator");
  expired_spec.not_after = absl::Now() - absl::Seconds(5);
  const IssuedCertificate expired = certificates_.authority().Issue(expired_spec);
  const IssuedCertificate alien = foreign.Issue(SpecOf("operator"));
  // Without the client's own checks.
  grpc::SslCredentialsOptions none;
  none.pem_root_certs = certificates_.authority().ca();
  grpc::SslCredentialsOptions old = none;
  old.pem_private_key = expired.key;
  old.pem_cert_chain = expired.certificate;
  grpc::SslCredentialsOptions other = none;
  other.pem_private_key = alien.key;
  other.pem_cert_chain = alien.certificate;
  for (const auto& [server, service] : Servers()) {
    for (const auto& credentials : {grpc::InsecureChannelCredentials(), grpc::SslCredentials(none),
                                    grpc::SslCredentials(old), grpc::SslCredentials(other)}) {
      const auto channel = grpc::CreateChannel(server, credentials);
      for (const MethodRoles& entry : RoleTable()) {
        if (!IsOf(entry.method, service)) continue;
        EXPECT_EQ(CallOfNothing(channel, entry.method).error_code(), grpc::StatusCode::UNAVAILABLE)
            << entry.method;
      }
    }
  }
}

TEST_F(SecuredClusterTest, ACertificateOfTheAuthorityWithoutARoleHereMayDoNothing) {
  for (const std::string uri : {"dslide://other/operator", "spiffe://dslide/operator", ""}) {
    CertificateSpec spec = SpecOf("operator");
    spec.uris.clear();
    if (!uri.empty()) spec.uris = {uri};
    const TlsFiles files =
        certificates_.authority().Write(certificates_.directory(), "stranger", spec);
    const auto client = Connect({.tls = files});
    EXPECT_EQ(client.status().code(), absl::StatusCode::kPermissionDenied) << client.status();
    EXPECT_THAT(std::string(client.status().message()), HasSubstr("role none may not call"));
  }
}

TEST_F(SecuredClusterTest, ADeniedCallIsNotRepeatedAndIsCounted) {
  auto reader = Connect(Channels("reader"));
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->DropModel("small").code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(coordinator_->metrics().Expose(), HasSubstr("dslide_server_denied_calls_total 1\n"));
}

TEST_F(SecuredClusterTest, AClientIdBelongsToTheCertificateThatFirstUsedIt) {
  const auto files = [&](const std::string& name) {
    CertificateSpec spec = SpecOf("trainer");
    spec.common_name = name;
    return certificates_.authority().Write(certificates_.directory(), name, spec);
  };
  const std::string shard = shards_[0]->runtime().address();
  const std::string client(16, 'a');
  const RawTrainer ann(shard, files("ann"));
  const RawTrainer bob(shard, files("bob"));
  ASSERT_TRUE(ann.Hello(client).ok());
  const grpc::Status refused = bob.Hello(client);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(refused.error_message(), HasSubstr("holder of another certificate"));
  EXPECT_EQ(bob.Scatter(client).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(bob.Step(client), static_cast<int>(grpc::StatusCode::PERMISSION_DENIED));
  EXPECT_EQ(bob.CloseClient(client).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_TRUE(bob.Hello(std::string(16, 'b')).ok());
  // A renewed certificate has the same names.
  const RawTrainer renewed(shard, files("ann"));
  EXPECT_TRUE(renewed.Hello(client).ok());
  EXPECT_EQ(renewed.Step(client), static_cast<int>(grpc::StatusCode::NOT_FOUND)) << "no model";
  EXPECT_TRUE(ann.CloseClient(client).ok());
  EXPECT_THAT(shards_[0]->metrics().Expose(),
              HasSubstr("dslide_shard_refused_requests_total{reason=\"FOREIGN_CLIENT\"} 4\n"));
}

// Works on the cluster until told to stop; counts what it did and what failed.
class Load {
 public:
  using Act = std::function<absl::Status()>;

  explicit Load(Act act)
      : thread_([this, act = std::move(act)] {
          while (!stop_) {
            if (const absl::Status status = act(); !status.ok()) {
              ADD_FAILURE() << status;
              ++failed_;
            }
            ++done_;
            absl::SleepFor(absl::Milliseconds(2));
          }
        }) {}
  void Stop() {
    stop_ = true;
    thread_.join();
  }
  int64_t done() const { return done_; }
  int64_t failed() const { return failed_; }

 private:
  std::atomic<bool> stop_ = false;
  std::atomic<int64_t> done_ = 0;
  std::atomic<int64_t> failed_ = 0;
  std::thread thread_;
};

class RenewalTest : public SecuredClusterTest {
 protected:
  void SetUp() override {
    SecuredClusterTest::SetUp();
    auto client = Connect(Channels("trainer"));
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
    ASSERT_TRUE(client_->CreateModel(SmallModel()).ok());
    auto streams = client_->OpenStreams(SmallModel(), NewClientId());
    ASSERT_TRUE(streams.ok()) << streams.status();
    streams_ = *std::move(streams);
  }
  void TearDown() override {
    streams_.clear();
    client_.reset();
    SecuredClusterTest::TearDown();
  }

  absl::Status GatherAndAdd() {
    const auto rows = client_->Gather("small", "hidden", {RowId(0), RowId(5)});
    if (!rows.ok()) return rows.status();
    return client_
        ->Scatter(
            "small", "hidden", ScatterMode::kAdd,
            {.rows = {RowId(3)}, .dim = 8, .values = std::vector<float>(8, 1.0f), .biases = {0.0f}})
        .status;
  }
  absl::Status Step() {
    ++step_;
    for (const auto& stream : streams_) {
      const auto answer = stream->Send(step_, step_, DenseGatherOp{"hidden"})->Take();
      if (!answer.ok()) return answer.status();
    }
    return absl::OkStatus();
  }
  // One call on a connection of its own, without any repetition.
  absl::Status Visit() const {
    const auto channel = NetworkChannels(Channels("trainer"))(shards_[0]->runtime().address());
    if (!channel.ok()) return channel.status();
    grpc::ClientContext context;
    context.set_deadline(PatientDeadline());
    v1::GetServerInfoResponse response;
    const grpc::Status status =
        v1::ShardService::NewStub(*channel)->GetServerInfo(&context, {}, &response);
    return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  }
  float Cell() { return client_->Gather("small", "hidden", {RowId(3)})->values[0]; }
  double Renewals(const shard::ShardServer& server, const std::string& result) const {
    const std::string page = server.metrics().Expose();
    const std::string name = absl::StrCat("dslide_tls_reloads_total{result=\"", result, "\"} ");
    return std::atof(page.substr(page.find(name) + name.size()).c_str());
  }
  // The certificate that a shard shows to a new connection.
  std::string Shown() const {
    const auto channel = *NetworkChannels(Channels("trainer"))(shards_[0]->runtime().address());
    grpc::ClientContext context;
    v1::GetServerInfoResponse response;
    EXPECT_TRUE(v1::ShardService::NewStub(channel)->GetServerInfo(&context, {}, &response).ok());
    const auto shown = context.auth_context()->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
    return shown.empty() ? std::string() : std::string(shown[0].data(), shown[0].size());
  }

  std::unique_ptr<ClusterClient> client_;
  std::vector<std::unique_ptr<ShardStream>> streams_;
  int64_t step_ = 0;
};

TEST_F(RenewalTest, CertificatesRenewedEverySecondUnderLoadFailNoCall) {
  constexpr int kRenewals = 6;
  const float before = Cell();
  Load bulk([this] { return GatherAndAdd(); });
  Load steps([this] { return Step(); });
  Load visits([this] { return Visit(); });
  std::set<std::string> shown;
  // Something was under way at each renewal, even on a machine that does much else.
  const auto enough = [&] {
    for (const Load* load : {&bulk, &steps, &visits}) {
      if (load->done() < kRenewals) return false;
    }
    // gRPC looks once a second: most of the sets were seen by new connections.
    return 2 * Renewals(*shards_[0], "taken") >= kRenewals && 3 * shown.size() >= kRenewals;
  };
  const absl::Time deadline = absl::Now() + kPatience;
  for (int i = 0; i < kRenewals || (!enough() && absl::Now() < deadline); ++i) {
    certificates_.Renew();
    absl::SleepFor(absl::Seconds(1));
    shown.insert(Shown());
  }
  EXPECT_TRUE(enough());
  for (Load* load : {&bulk, &steps, &visits}) load->Stop();
  std::cout << "calls: " << bulk.done() << " gathers and scatters, " << steps.done() << " steps, "
            << visits.done() << " new connections; certificates seen: " << shown.size() << "\n";
  EXPECT_EQ(bulk.failed() + steps.failed() + visits.failed(), 0);
  EXPECT_FLOAT_EQ(Cell() - before, static_cast<float>(bulk.done()));
  EXPECT_EQ(streams_[0]->reconnects(), 0);
}

TEST_F(RenewalTest, ADamagedSetKeepsTheLastGoodOneServing) {
  certificates_.Damage();
  EXPECT_TRUE(Eventually([&] { return Renewals(*shards_[0], "refused") >= 2; }));
  absl::SleepFor(absl::Milliseconds(1500));  // gRPC has looked at its copies
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(Visit().ok());
    EXPECT_TRUE(GatherAndAdd().ok());
    EXPECT_TRUE(Step().ok());
  }
}

}  // namespace
}  // namespace dslide
