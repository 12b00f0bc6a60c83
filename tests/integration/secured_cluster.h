// A cluster whose parts know each other by certificates, in the test's process.

#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cpp/channel_factory.h"
#include "client/cpp/cluster_client.h"
#include "core/net/tls/certificate_roles.h"
#include "services/coordinator/coordinator_server.h"
#include "services/shard/shard_server.h"
#include "tests/unit/core/net/tls/test_certificates.h"
#include "tests/unit/patience.h"

namespace dslide {

inline constexpr absl::Duration kReloadInterval = absl::Milliseconds(200);

// Certificates behind a symbolic link, as Kubernetes mounts them: a renewal swaps the link, so that
// all files change at one instant.
class LinkedCertificates {
 public:
  LinkedCertificates() { Renew(); }

  TlsFiles Of(const std::string& role) const {
    const std::string base = absl::StrCat(directory_.path(), "/current/", role);
    return {.cert = base + ".crt", .key = base + ".key", .ca = base + ".ca"};
  }
  // New keys and certificates for everybody, of the same authority.
  void Renew() {
    const std::string set = absl::StrCat(directory_.path(), "/set-", ++sets_);
    std::filesystem::create_directory(set);
    for (const Role role : kAllRoles) {
      const IssuedCertificate issued = authority_.Issue(SpecOf(RoleName(role)));
      const std::string base = absl::StrCat("set-", sets_, "/", RoleName(role));
      directory_.Write(base + ".crt", issued.certificate);
      directory_.Write(base + ".key", issued.key);
      directory_.Write(base + ".ca", authority_.ca());
    }
    Point(set);
  }
  // A set in which the shards' certificate is cut in half.
  void Damage() {
    Renew();
    directory_.Write(absl::StrCat("set-", sets_, "/shard.crt"), "-----BEGIN CERTIFICATE-----\nMI");
  }
  const TestAuthority& authority() const { return authority_; }
  const TestDirectory& directory() const { return directory_; }

 private:
  void Point(const std::string& set) {
    const std::string link = directory_.path() + "/current";
    std::filesystem::create_symlink(set, link + ".new");
    std::filesystem::rename(link + ".new", link);
  }

  TestDirectory directory_;
  TestAuthority authority_;
  int sets_ = 0;
};

inline ModelSpec SmallModel() {
  ModelSpec spec;
  spec.name = "small";
  TableSpec input;
  input.name = "input";
  input.role = TableRole::kEmbedding;
  input.rows = 101;
  input.bias_row = true;
  input.dim = 8;
  TableSpec hidden;
  hidden.name = "hidden";
  hidden.role = TableRole::kDense;
  hidden.rows = 8;
  hidden.dim = 8;
  TableSpec head;
  head.name = "labels";
  head.role = TableRole::kHead;
  head.rows = 100;
  head.dim = 8;
  head.head.max_active = 0;
  spec.tables = {input, hidden, head};
  return spec;
}

class SecuredClusterTest : public ::testing::Test {
 protected:
  static constexpr int kShards = 2;

  void SetUp() override {
    coordinator::CoordinatorServerOptions coordinator;
    coordinator.server = Server("coordinator");
    coordinator.coordinator.membership.expected_shards = kShards;
    auto started = coordinator::CoordinatorServer::Start(coordinator);
    ASSERT_TRUE(started.ok()) << started.status();
    coordinator_ = *std::move(started);
    for (int i = 0; i < kShards; ++i) {
      shard::ShardServerOptions options;
      options.server = Server("shard");
      options.core.parallelism.threads = 1;
      options.core.memory_bytes = 64 << 20;
      options.coordinator = address();
      auto shard = shard::ShardServer::Start(options);
      ASSERT_TRUE(shard.ok()) << shard.status();
      ASSERT_TRUE((*shard)->WaitUntilReady(kPatience).ok());
      shards_.push_back(*std::move(shard));
    }
  }
  void TearDown() override {
    if (coordinator_ != nullptr) coordinator_->coordinator().Stop();
    shards_.clear();
    coordinator_.reset();
  }

  ServerOptions Server(const std::string& role) const {
    ServerOptions options{.binary = role, .listen = "127.0.0.1:0"};
    options.drain_timeout = absl::Seconds(2);
    options.max_connection_rate = 0;  // all come from one address, and over and over
    options.tls.files = certificates_.Of(role);
    options.tls.reload_interval = kReloadInterval;
    return options;
  }
  std::string address() const { return coordinator_->runtime().address(); }

  ChannelOptions Channels(const std::string& role) const {
    return {.tls = certificates_.Of(role), .tls_reload_interval = kReloadInterval};
  }
  absl::StatusOr<std::unique_ptr<ClusterClient>> Connect(const ChannelOptions& channels) const {
    ClientOptions options;
    options.timeout = kPatience;
    return ClusterClient::Connect(address(), NetworkChannels(channels), options);
  }

  // Both kinds of servers: where, and of which service.
  std::vector<std::pair<std::string, std::string>> Servers() const {
    return {{address(), "dslide.v1.CoordinatorService"},
            {shards_[0]->runtime().address(), "dslide.v1.ShardService"}};
  }

  LinkedCertificates certificates_;
  std::unique_ptr<coordinator::CoordinatorServer> coordinator_;
  std::vector<std::unique_ptr<shard::ShardServer>> shards_;
};

}  // namespace dslide
