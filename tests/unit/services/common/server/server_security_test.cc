#include "services/common/server/server_security.h"

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/server_credentials.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "core/net/tls/revocation_lists.h"
#include "dslide/v1/coordinator.grpc.pb.h"
#include "services/common/exit_codes.h"
#include "services/common/server/server_runtime.h"
#include "services/common/server/transport.h"
#include "tests/unit/core/net/tls/test_certificates.h"
#include "tests/unit/patience.h"

namespace dslide {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class ServerSecurityEmptyService final : public v1::CoordinatorService::Service {
  grpc::Status ListModels(grpc::ServerContext*, const v1::ListModelsRequest*,
                          v1::ListModelsResponse*) override {
    return grpc::Status::OK;
  }
};

// A call on a channel of its own, so on a new connection.
grpc::Status AskTheSecured(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  context.set_deadline(PatientDeadline());
  v1::ListModelsResponse response;
  return v1::CoordinatorService::NewStub(channel)->ListModels(&context, {}, &response);
}

class ServerSecurityTest : public ::testing::Test {
 protected:
  absl::Status Start(ServerOptions options) {
    options.binary = "test";
    options.listen = "127.0.0.1:0";
    auto started =
        ServerRuntime::Start(options, {{&service_, "dslide.v1.CoordinatorService"}}, metrics_);
    if (!started.ok()) return started.status();
    runtime_ = *std::move(started);
    return absl::OkStatus();
  }
  void MustStart() {
    ServerOptions options;
    options.tls.files = server_;
    options.tls.reload_interval = absl::Milliseconds(50);
    const absl::Status started = Start(options);
    ASSERT_TRUE(started.ok()) << started;
  }

  // What a client with those certificates is told.
  grpc::Status CallWith(const TlsFiles& files) const {
    const auto store = TlsStore::Open(files, absl::Hours(1));
    EXPECT_TRUE(store.ok()) << store.status();
    return AskTheSecured(*NetworkServiceChannels(false, *store)(runtime_->address()));
  }

  TestDirectory directory_;
  TestAuthority authority_;
  TestAuthority foreign_;
  TlsFiles server_ = authority_.Write(directory_, "coordinator");
  Metrics metrics_;
  ServerSecurityEmptyService service_;
  std::unique_ptr<ServerRuntime> runtime_;
};

TEST_F(ServerSecurityTest, AClientOfTheAuthorityIsServed) {
  MustStart();
  const grpc::Status status = CallWith(authority_.Write(directory_, "trainer"));
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_THAT(metrics_.Expose(),
              AllOf(HasSubstr("dslide_server_tls 1\n"), HasSubstr("dslide_server_insecure 0\n"),
                    ContainsRegex("dslide_tls_certificate_expiry_timestamp_"
                                  "seconds 1[0-9]+\n")));
}

TEST_F(ServerSecurityTest, PlaintextIsRefused) {
  MustStart();
  EXPECT_EQ(
      AskTheSecured(*NetworkServiceChannels(false, nullptr)(runtime_->address())).error_code(),
      grpc::StatusCode::UNAVAILABLE);
}

TEST_F(ServerSecurityTest, AClientWithoutACertificateIsRefused) {
  MustStart();
  EXPECT_EQ(CallWith({.ca = server_.ca}).error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(ServerSecurityTest, ACertificateOfAForeignAuthorityIsRefused) {
  MustStart();
  TlsFiles files = foreign_.Write(directory_, "trainer");
  files.ca = server_.ca;
  EXPECT_EQ(CallWith(files).error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(ServerSecurityTest, AnExpiredCertificateIsRefusedByTheServer) {
  MustStart();
  CertificateSpec spec = SpecOf("trainer");
  spec.not_after = absl::Now() - absl::Seconds(5);
  const IssuedCertificate expired = authority_.Issue(spec);
  // Without our own checks, which would not let a client start with it.
  grpc::SslCredentialsOptions options{.pem_root_certs = authority_.ca(),
                                      .pem_private_key = expired.key,
                                      .pem_cert_chain = expired.certificate};
  EXPECT_EQ(AskTheSecured(grpc::CreateChannel(runtime_->address(), grpc::SslCredentials(options)))
                .error_code(),
            grpc::StatusCode::UNAVAILABLE);
  const IssuedCertificate valid = authority_.Issue(SpecOf("trainer"));
  options.pem_private_key = valid.key;
  options.pem_cert_chain = valid.certificate;
  EXPECT_TRUE(
      AskTheSecured(grpc::CreateChannel(runtime_->address(), grpc::SslCredentials(options))).ok());
}

TEST_F(ServerSecurityTest, ARevokedCertificateIsRefusedOnNewConnections) {
  const TestDirectory lists;
  const auto revoke = [&](const std::string& certificate) {
    const auto list = NextRevocationList(lists.path(), authority_.ca(), authority_.key(),
                                         certificate, absl::Now());
    ASSERT_TRUE(list.ok()) << list.status();
    lists.Write(list->name, list->pem);
  };
  const auto trainer = [&](const std::string& name) {
    return authority_.Write(directory_, name, SpecOf("trainer"));
  };
  const TlsFiles stolen = trainer("stolen");
  const TlsFiles other = trainer("other");
  const TlsFiles third = trainer("third");
  const auto text = [](const std::string& path) {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  revoke(text(stolen.cert));
  server_.crl_dir = lists.path();
  MustStart();
  EXPECT_EQ(CallWith(stolen).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(CallWith(other).ok());
  EXPECT_TRUE(CallWith(third).ok());
  // One more, while the server runs.
  revoke(text(other.cert));
  EXPECT_EQ(CallWith(other).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(CallWith(stolen).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(CallWith(third).ok());
}

TEST_F(ServerSecurityTest, AClientTurnsAwayFromARevokedServer) {
  const TestDirectory lists;
  MustStart();
  TlsFiles trainer = authority_.Write(directory_, "trainer");
  trainer.crl_dir = lists.path();
  EXPECT_TRUE(CallWith(trainer).ok()) << "nothing is revoked yet";
  std::ifstream file(server_.cert);
  const std::string certificate(std::istreambuf_iterator<char>(file), {});
  const auto list =
      NextRevocationList(lists.path(), authority_.ca(), authority_.key(), certificate, absl::Now());
  ASSERT_TRUE(list.ok()) << list.status();
  lists.Write(list->name, list->pem);
  EXPECT_EQ(CallWith(trainer).error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(ServerSecurityTest, AServerOfAnotherNameIsRefusedByTheClient) {
  CertificateSpec spec = SpecOf("coordinator");
  spec.hosts = {"coordinator.example"};
  server_ = authority_.Write(directory_, "elsewhere", spec);
  MustStart();
  const grpc::Status status = CallWith(authority_.Write(directory_, "trainer"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), HasSubstr("Hostname"));
}

TEST_F(ServerSecurityTest, AServerOfAForeignAuthorityIsRefusedByTheClient) {
  server_ = foreign_.Write(directory_, "coordinator");
  server_.ca = directory_.Write("both.ca", authority_.ca() + foreign_.ca());
  MustStart();
  EXPECT_EQ(CallWith(authority_.Write(directory_, "trainer")).error_code(),
            grpc::StatusCode::UNAVAILABLE);
}

TEST_F(ServerSecurityTest, WithoutAuthoritiesEveryClientIsServedInSecret) {
  ServerOptions options;
  options.tls.files = {.cert = server_.cert, .key = server_.key};
  ASSERT_TRUE(Start(options).ok());
  EXPECT_TRUE(CallWith({.ca = server_.ca}).ok());
}

TEST_F(ServerSecurityTest, BadMaterialKeepsTheServerFromStarting) {
  ServerOptions options;
  options.tls.files = server_;
  options.tls.files.key = authority_.Write(directory_, "trainer").key;
  const absl::Status refused = Start(options);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ExitCodeOfStart(refused), kExitUsage);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("trainer.key (--tls-key)"));
}

TEST_F(ServerSecurityTest, SettingsThatDoNotFitTogetherAreRefused) {
  for (const auto& [settings, text] : std::vector<std::pair<TlsSettings, std::string>>{
           {{.files = {.cert = "c"}}, "--tls-key"},
           {{.files = {.ca = "a"}}, "--tls-cert"},
           {{.files = {.cert = "c", .key = "k"}, .authorization = "roles"}, "--tls-ca"},
           {{.authorization = "everybody"}, "roles or none"},
           {{.cluster = "A/b"}, "cluster name"},
       }) {
    const absl::Status status = CheckServerOptions({.listen = "127.0.0.1:0", .tls = settings});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }
}

TEST_F(ServerSecurityTest, WithTlsEveryInterfaceMayBeServed) {
  EXPECT_TRUE(CheckServerOptions({.listen = "0.0.0.0:0", .tls = {.files = server_}}).ok());
}

TEST_F(ServerSecurityTest, RenewedMaterialCountsForNewConnections) {
  MustStart();
  const TlsFiles trainer = authority_.Write(directory_, "trainer");
  ASSERT_TRUE(CallWith(trainer).ok());
  // The server moves to another authority altogether.
  const IssuedCertificate moved = foreign_.Issue(SpecOf("coordinator"));
  directory_.Write("coordinator.ca", foreign_.ca());
  directory_.Write("coordinator.key", moved.key);
  directory_.Write("coordinator.crt", moved.certificate);
  const TlsFiles successor = foreign_.Write(directory_, "trainer-2", SpecOf("trainer"));
  EXPECT_TRUE(Eventually([&] { return CallWith(successor).ok(); }));
  EXPECT_FALSE(CallWith(trainer).ok());
}

TEST_F(ServerSecurityTest, DamagedMaterialLeavesTheLastGoodSetInUse) {
  MustStart();
  const TlsFiles trainer = authority_.Write(directory_, "trainer");
  directory_.Write("coordinator.crt", "-----BEGIN CERTIFICATE-----\nMIIB");
  ASSERT_TRUE(Eventually([this] {
    return absl::StrContains(metrics_.Expose(), "dslide_tls_reloads_total{result=\"refused\"} 3");
  }));
  absl::SleepFor(absl::Milliseconds(1500));  // gRPC looks at its copies once a second
  EXPECT_TRUE(CallWith(trainer).ok());
}

}  // namespace
}  // namespace dslide
