#include "services/common/server/limited_listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "dslide/v1/coordinator.grpc.pb.h"
#include "services/common/server/server_runtime.h"
#include "services/common/server/transport.h"
#include "tests/unit/core/net/tls/test_certificates.h"
#include "tests/unit/patience.h"

namespace dslide {
namespace {

using ::testing::HasSubstr;

// Sockets that connect and then say nothing.
class IdleSockets {
 public:
  ~IdleSockets() {
    for (const int fd : fds_) ::close(fd);
  }
  void Connect(int port, int count) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < count; ++i) {
      fds_.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      EXPECT_EQ(::connect(fds_.back(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    }
  }
  void Say(absl::string_view text) {
    for (const int fd : fds_) {
      EXPECT_EQ(::send(fd, text.data(), text.size(), MSG_NOSIGNAL),
                static_cast<ssize_t>(text.size()));
    }
  }
  // Ends all of them at once, by RST.
  void Reset() {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    for (const int fd : fds_) {
      ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
      ::close(fd);
    }
    fds_.clear();
  }
  // How many the other side has closed.
  int Closed() const {
    int closed = 0;
    for (const int fd : fds_) {
      // What a server says first (its SETTINGS) is read past.
      char buffer[256];
      ssize_t count = 0;
      while ((count = ::recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT)) > 0) {
      }
      if (count == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) ++closed;
    }
    return closed;
  }

 private:
  std::vector<int> fds_;
};

TEST(LimitedListenerTest, TakesConnectionsUpToTheLimitAndAgainWhenSomeEnd) {
  Metrics metrics;
  std::vector<int> taken;
  absl::Mutex mu;
  {
    auto listener = LimitedListener::Bind(*ParseListenAddress("127.0.0.1:0"), {.open = 3}, metrics);
    ASSERT_TRUE(listener.ok()) << listener.status();
    (*listener)->Start([&](int, int fd) {
      const absl::MutexLock lock(&mu);
      taken.push_back(fd);
    });
    const auto count = [&] {
      const absl::MutexLock lock(&mu);
      return taken.size();
    };
    IdleSockets clients;
    clients.Connect((*listener)->port(), 5);
    EXPECT_TRUE(Eventually([&] { return clients.Closed() == 2; }));
    EXPECT_EQ(count(), 3u);
    EXPECT_THAT(metrics.Expose(), HasSubstr("dslide_server_connections 3\n"));
    EXPECT_THAT(metrics.Expose(), HasSubstr("dslide_server_refused_connections_total 2\n"));
    {
      const absl::MutexLock lock(&mu);
      // As gRPC ends connections: shut down, then closed.
      ::shutdown(taken[0], SHUT_RDWR);
      ::close(taken[0]);
    }
    EXPECT_TRUE(Eventually(
        [&] { return absl::StrContains(metrics.Expose(), "dslide_server_connections 2\n"); }));
    clients.Connect((*listener)->port(), 1);
    EXPECT_TRUE(Eventually([&] { return count() == 4; }));
    (*listener)->Stop();
    const std::string address = absl::StrCat("127.0.0.1:", (*listener)->port());
    EXPECT_EQ(CheckListenable(*ParseListenAddress(address)), absl::OkStatus());
  }
  for (size_t i = 1; i < taken.size(); ++i) ::close(taken[i]);
}

// A listener that ends whom it takes.
class TurnsTest : public ::testing::Test {
 protected:
  void Listen(int64_t per_second) {
    auto bound = LimitedListener::Bind(*ParseListenAddress("127.0.0.1:0"),
                                       {.per_second = per_second}, metrics_);
    ASSERT_TRUE(bound.ok()) << bound.status();
    listener_ = *std::move(bound);
    listener_->Start([this](int, int fd) {
      if (speak_first_) {
        pollfd heard{.fd = fd, .events = POLLIN, .revents = 0};
        EXPECT_EQ(::poll(&heard, 1, static_cast<int>(absl::ToInt64Milliseconds(kPatience))), 1);
      }
      ::shutdown(fd, SHUT_RDWR);
      ::close(fd);
      ++taken_;
    });
  }
  // Connects, and says something; waits until the listener is done with it.
  absl::Duration Visit() {
    const int before = taken_;
    const absl::Time start = absl::Now();
    IdleSockets client;
    client.Connect(listener_->port(), 1);
    client.Say("x");
    EXPECT_TRUE(Eventually([&] { return taken_ > before; }));
    const absl::Duration took = absl::Now() - start;
    client.Reset();
    EXPECT_TRUE(Eventually(
        [&] { return absl::StrContains(metrics_.Expose(), "dslide_server_connections 0\n"); }));
    return took;
  }

  Metrics metrics_;
  std::atomic<int> taken_ = 0;
  bool speak_first_ = false;  // clients do
  std::unique_ptr<LimitedListener> listener_;
};

TEST_F(TurnsTest, WhoConnectsOverAndOverIsSentAway) {
  Listen(/*per_second=*/1);
  constexpr int kAttempts = 200;
  IdleSockets clients;
  clients.Connect(listener_->port(), kAttempts);
  EXPECT_TRUE(Eventually([&] { return clients.Closed() == kAttempts; }));
  listener_->Stop();
  // One at once, those that waited, and one more for each second that this has taken.
  EXPECT_GE(taken_, 1 + LimitedListener::kWaitSeconds);
  EXPECT_LT(taken_, kAttempts / 2);
  EXPECT_THAT(metrics_.Expose(),
              HasSubstr(absl::StrCat("dslide_server_throttled_connections_total ",
                                     kAttempts - taken_.load(), "\n")));
}

TEST_F(TurnsTest, WhoWaitsForItsTurnHasAPlaceUntilItGoes) {
  Listen(/*per_second=*/1);
  const auto open = [&](int count) {
    return Eventually([&] {
      return absl::StrContains(metrics_.Expose(),
                               absl::StrCat("dslide_server_connections ", count, "\n"));
    });
  };
  IdleSockets patient;
  IdleSockets impatient;
  patient.Connect(listener_->port(), 3);  // one at once, the others after 1 and 2 s
  impatient.Connect(listener_->port(), 2);
  EXPECT_TRUE(open(4)) << metrics_.Expose();
  impatient.Reset();
  EXPECT_TRUE(open(2)) << metrics_.Expose();
  EXPECT_TRUE(open(0)) << metrics_.Expose();
  EXPECT_EQ(taken_, 3);
}

TEST_F(TurnsTest, WhoseConnectionsAreOfNoUseGetsFewer) {
  speak_first_ = true;
  Listen(/*per_second=*/4);
  Visit();  // one of four turns, and four more: a debt of one
  EXPECT_GE(Visit(), absl::Milliseconds(300));
  EXPECT_GE(Visit(), absl::Milliseconds(800));
}

TEST_F(TurnsTest, WhoOnlyLooksWhetherThePortIsOpenIsNotCharged) {
  Listen(/*per_second=*/10);
  IdleSockets clients;
  const absl::Time start = absl::Now();
  for (int i = 1; i <= 40; ++i) {
    clients.Connect(listener_->port(), 1);
    clients.Reset();
    clients.Connect(listener_->port(), 1);
    ASSERT_TRUE(Eventually([&] { return clients.Closed() == 1; }));
    clients.Reset();
  }
  // Charged, they would take that long.
  EXPECT_LT(absl::Now() - start, absl::Seconds(80));
}

TEST_F(TurnsTest, AStopClosesThoseThatWait) {
  Listen(/*per_second=*/1);
  IdleSockets clients;
  clients.Connect(listener_->port(), 5);
  ASSERT_TRUE(Eventually([&] { return taken_ == 1; }));
  listener_.reset();
  EXPECT_TRUE(Eventually([&] { return clients.Closed() == 5; }));
  EXPECT_LT(taken_, 5);
}

TEST(LimitedListenerTest, ANameIsBoundAtOnePortOnAllOfItsAddresses) {
  Metrics metrics;
  auto first = LimitedListener::Bind(*ParseListenAddress("localhost:0"), {.open = 1}, metrics);
  ASSERT_TRUE(first.ok()) << first.status();
  Metrics other;
  EXPECT_EQ(LimitedListener::Bind(*ParseListenAddress(absl::StrCat("127.0.0.1:", (*first)->port())),
                                  {.open = 1}, other)
                .status()
                .code(),
            absl::StatusCode::kAlreadyExists);
}

class EmptyService final : public v1::CoordinatorService::Service {
  grpc::Status ListModels(grpc::ServerContext*, const v1::ListModelsRequest*,
                          v1::ListModelsResponse*) override {
    return grpc::Status::OK;
  }
};

grpc::Status ListModels(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  context.set_deadline(PatientDeadline());
  context.set_wait_for_ready(true);
  v1::ListModelsResponse response;
  return v1::CoordinatorService::NewStub(channel)->ListModels(&context, {}, &response);
}

// Addresses of both families: their names have to be those that gRPC uses.
class PermittedCallsTest : public ::testing::TestWithParam<const char*> {};

TEST_P(PermittedCallsTest, ConnectionsWithOneAreNotCharged) {
  Metrics metrics;
  EmptyService service;
  auto runtime =
      ServerRuntime::Start({.binary = "test", .listen = GetParam(), .max_connection_rate = 5},
                           {{&service, "dslide.v1.CoordinatorService"}}, metrics);
  if (absl::IsUnavailable(runtime.status())) GTEST_SKIP() << runtime.status();
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  const absl::Time start = absl::Now();
  for (int i = 0; i < 15; ++i) {
    const auto own_connection = *NetworkServiceChannels(false, nullptr)((*runtime)->address());
    EXPECT_TRUE(ListModels(own_connection).ok());
  }
  // Two seconds for the turns of ten. Charged, each would take more than a second.
  EXPECT_LT(absl::Now() - start, absl::Seconds(15));
  EXPECT_THAT(metrics.Expose(), HasSubstr("dslide_server_throttled_connections_total 0\n"));
}

INSTANTIATE_TEST_SUITE_P(Families, PermittedCallsTest, ::testing::Values("127.0.0.1:0", "[::1]:0"));

// With TLS and without: 300 sockets that say nothing.
class IdleSocketsTest : public ::testing::TestWithParam<bool> {};

TEST_P(IdleSocketsTest, AnHonestClientKeepsWorkingAndTheIdleOnesAreClosed) {
  const TestDirectory directory;
  const TestAuthority authority;
  Metrics metrics;
  EmptyService service;
  ServerOptions options{.binary = "test", .listen = "127.0.0.1:0", .max_connection_rate = 0};
  std::shared_ptr<TlsStore> tls;
  if (GetParam()) {
    options.tls.files = authority.Write(directory, "coordinator");
    tls = *TlsStore::Open(authority.Write(directory, "trainer"), absl::Hours(1));
  }
  auto runtime =
      ServerRuntime::Start(options, {{&service, "dslide.v1.CoordinatorService"}}, metrics);
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  const std::string address = (*runtime)->address();
  const auto honest = *NetworkServiceChannels(false, tls)(address);
  ASSERT_TRUE(ListModels(honest).ok());

  IdleSockets idle;
  idle.Connect(ParseListenAddress(address)->port, 300);
  // 256 places, one of them the honest client's.
  EXPECT_TRUE(Eventually([&] {
    return absl::StrContains(metrics.Expose(), "dslide_server_refused_connections_total 45\n");
  })) << metrics.Expose();
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(ListModels(honest).ok());
  // Those that got a place lose it when they have not introduced themselves in time.
  EXPECT_TRUE(Eventually([&] { return idle.Closed() == 300; })) << idle.Closed();
  EXPECT_TRUE(Eventually([&] {
    return absl::StrContains(metrics.Expose(), "dslide_server_connections 1\n");
  })) << metrics.Expose();
  EXPECT_TRUE(ListModels(*NetworkServiceChannels(false, tls)(address)).ok());
}

INSTANTIATE_TEST_SUITE_P(Transports, IdleSocketsTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Tls" : "Plaintext"; });

}  // namespace
}  // namespace dslide
