#include "services/common/server/server_runtime.h"

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "core/base/reason.h"
#include "dslide/v1/coordinator.grpc.pb.h"
#include "services/common/exit_codes.h"
#include "services/common/rpc_metrics.h"
#include "services/common/server/transport.h"
#include "services/common/status_mapping.h"
#include "services/common/unary.h"
#include "tests/unit/core/net/http/http_get.h"
#include "tests/unit/patience.h"

namespace dslide {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kName[] = "dslide.v1.CoordinatorService";

// Answers ListModels at once and holds GetClusterStatus until it is released.
class HoldingService final : public v1::CoordinatorService::Service {
 public:
  explicit HoldingService(Metrics* metrics) : metrics_(*metrics, "coordinator", kName) {}

  int64_t running_calls() const { return metrics_.running(); }

  grpc::Status ListModels(grpc::ServerContext* context, const v1::ListModelsRequest* request,
                          v1::ListModelsResponse* response) override {
    return RunUnary(metrics_.method("ListModels"), *context, *request, response, [&] {
      response->add_models()->set_name("m");
      return result;
    });
  }
  grpc::Status GetClusterStatus(grpc::ServerContext* context, const v1::GetClusterStatusRequest*,
                                v1::GetClusterStatusResponse*) override {
    metrics_.method("GetClusterStatus").RecordStarted();
    started.Notify();
    while (!release && !context->IsCancelled()) absl::SleepFor(absl::Milliseconds(1));
    metrics_.method("GetClusterStatus").RecordHandled(absl::StatusCode::kOk, absl::ZeroDuration());
    return grpc::Status::OK;
  }

  absl::Status result;
  absl::Notification started;
  std::atomic<bool> release = false;

 private:
  const RpcMetrics metrics_;
};

// Makes one unary call of raw bytes. Returns the answer's bytes, or the failed status.
absl::StatusOr<std::string> CallRaw(const std::shared_ptr<grpc::Channel>& channel,
                                    const std::string& method, const std::string& request) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(PatientDeadline());
  const grpc::Slice slice(request);
  const grpc::ByteBuffer sent(&slice, 1);
  grpc::ByteBuffer received;
  absl::Notification done;
  grpc::Status status;
  stub.UnaryCall(&context, method, grpc::StubOptions(), &sent, &received, [&](grpc::Status s) {
    status = std::move(s);
    done.Notify();
  });
  done.WaitForNotification();
  if (!status.ok()) return FromGrpcStatus(status);
  std::vector<grpc::Slice> slices;
  (void)received.Dump(&slices);
  std::string bytes;
  for (const grpc::Slice& part : slices) {
    bytes.append(reinterpret_cast<const char*>(part.begin()), part.size());
  }
  return bytes;
}

// What grpc.health.v1.Health/Check says: "SERVING", "NOT_SERVING", or the error's code. The
// messages are so small that their bytes are written here: field 1 of each.
std::string Health(const std::shared_ptr<grpc::Channel>& channel, const std::string& service) {
  std::string request;
  if (!service.empty()) {
    request = absl::StrCat("\x0a", std::string(1, static_cast<char>(service.size())), service);
  }
  const auto answer = CallRaw(channel, "/grpc.health.v1.Health/Check", request);
  if (!answer.ok()) return absl::StatusCodeToString(answer.status().code());
  if (*answer == "\x08\x01") return "SERVING";
  return *answer == "\x08\x02" ? "NOT_SERVING" : "?";
}

std::shared_ptr<grpc::Channel> Connect(const std::string& address) {
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                   ServiceChannelArguments());
}

grpc::Status AskForModels(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  context.set_deadline(PatientDeadline());
  v1::ListModelsResponse response;
  return v1::CoordinatorService::NewStub(channel)->ListModels(&context, {}, &response);
}

// A call that HoldingService holds, on a thread of its own.
class HeldCall {
 public:
  explicit HeldCall(const std::shared_ptr<grpc::Channel>& channel)
      : thread_([this, channel] {
          grpc::ClientContext context;
          context.set_deadline(PatientDeadline());
          v1::GetClusterStatusResponse response;
          status_ =
              v1::CoordinatorService::NewStub(channel)->GetClusterStatus(&context, {}, &response);
        }) {}
  // Waits for its end.
  grpc::Status Join() {
    thread_.join();
    return status_;
  }

 private:
  grpc::Status status_;
  std::thread thread_;  // last: it uses the rest
};

class ServerRuntimeTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<ServerRuntime>> Start(ServerOptions options,
                                                       ServerHooks hooks = {}) {
    options.binary = "dslide-test";
    return ServerRuntime::Start(options, {{&service_, kName}}, metrics_, std::move(hooks));
  }
  std::unique_ptr<ServerRuntime> MustStart(ServerOptions options, ServerHooks hooks = {}) {
    auto runtime = Start(std::move(options), std::move(hooks));
    EXPECT_TRUE(runtime.ok()) << runtime.status();
    return *std::move(runtime);
  }

  Metrics metrics_;
  HoldingService service_{&metrics_};
};

TEST_F(ServerRuntimeTest, PortZeroIsReportedAsTheRealOne) {
  const auto runtime = MustStart({.listen = "127.0.0.1:0", .admin = "127.0.0.1:0"});
  EXPECT_THAT(runtime->address(), Not(HasSubstr(":0")));
  EXPECT_THAT(runtime->admin_address(), Not(HasSubstr(":0")));
  EXPECT_TRUE(AskForModels(Connect(runtime->address())).ok());
}

TEST_F(ServerRuntimeTest, ATakenPortIsAnErrorAndNotShared) {
  const auto first = MustStart({.listen = "127.0.0.1:0"});
  HoldingService other(&metrics_);
  const auto second = ServerRuntime::Start({.binary = "second", .listen = first->address()},
                                           {{&other, kName}}, metrics_);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists) << second.status();
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(first->address()));
  EXPECT_EQ(ExitCodeOfStart(second.status()), kExitCannotListen);
}

TEST_F(ServerRuntimeTest, ATakenPortIsFoundOnEveryAddressOfAName) {
  const auto first = MustStart({.listen = "127.0.0.1:0"});
  const std::string port = first->address().substr(first->address().rfind(':'));
  HoldingService other(&metrics_);
  const auto second = ServerRuntime::Start({.binary = "second", .listen = "localhost" + port},
                                           {{&other, kName}}, metrics_);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists) << second.status();
}

TEST_F(ServerRuntimeTest, ALiveUnixSocketIsNotTakenOverButALeftOneIs) {
  const std::string path = absl::StrCat(::testing::TempDir(), "runtime.", getpid(), ".sock");
  const std::string address = "unix:" + path;
  auto first = MustStart({.listen = address});
  EXPECT_EQ(first->address(), address);
  EXPECT_TRUE(AskForModels(Connect(address)).ok());
  HoldingService other(&metrics_);
  const auto second =
      ServerRuntime::Start({.binary = "second", .listen = address}, {{&other, kName}}, metrics_);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists) << second.status();
  EXPECT_TRUE(AskForModels(Connect(address)).ok());
  first.reset();
  // A crashed server leaves its socket file; nobody listens on it.
  std::remove(path.c_str());
  const int dead = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  path.copy(name.sun_path, sizeof(name.sun_path) - 1);
  ASSERT_EQ(::bind(dead, reinterpret_cast<sockaddr*>(&name), sizeof(name)), 0);
  ::close(dead);
  const auto again = MustStart({.listen = address});
  EXPECT_TRUE(AskForModels(Connect(address)).ok());
  std::remove(path.c_str());
}

TEST_F(ServerRuntimeTest, PlaintextForOthersNeedsTheFlag) {
  const auto refused = Start({.listen = "0.0.0.0:0"});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("--insecure"));
  EXPECT_EQ(ExitCodeOfStart(refused.status()), kExitUsage);
  EXPECT_FALSE(CheckServerOptions({.listen = "0.0.0.0:0"}).ok());
  const auto allowed = MustStart({.listen = "0.0.0.0:0", .insecure = true});
  EXPECT_TRUE(AskForModels(Connect("127.0.0.1" + allowed->address().substr(7))).ok());
  EXPECT_THAT(metrics_.Expose(), HasSubstr("dslide_server_insecure 1\n"));
}

TEST_F(ServerRuntimeTest, EveryInterfaceMeansBothProtocols) {
  const auto runtime = MustStart({.listen = ":0", .insecure = true});
  EXPECT_TRUE(AskForModels(Connect("127.0.0.1" + runtime->address())).ok());
}

TEST_F(ServerRuntimeTest, MalformedAddressesAreRefused) {
  EXPECT_EQ(Start({.listen = "7000"}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Start({.listen = "127.0.0.1:0", .admin = "x"}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(ServerRuntimeTest, InProcessChannelsNeedNoSocket) {
  const auto runtime = MustStart({});
  EXPECT_EQ(runtime->address(), "");
  EXPECT_TRUE(AskForModels(*runtime->InProcessChannel()).ok());
}

TEST_F(ServerRuntimeTest, HealthFollowsReadiness) {
  const auto runtime = MustStart({});
  const auto channel = *runtime->InProcessChannel();
  EXPECT_EQ(Health(channel, ""), "NOT_SERVING");
  EXPECT_EQ(Health(channel, kName), "NOT_SERVING");
  runtime->SetReady(true);
  EXPECT_EQ(Health(channel, ""), "SERVING");
  EXPECT_EQ(Health(channel, kName), "SERVING");
  EXPECT_EQ(Health(channel, "no.such.Service"), "NOT_FOUND");
  runtime->SetReady(false, "restoring");
  EXPECT_EQ(Health(channel, kName), "NOT_SERVING");
}

TEST_F(ServerRuntimeTest, ReflectionCanBeTurnedOff) {
  constexpr char kMethod[] = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
  const auto with = MustStart({});
  // The method is a stream: a unary call of garbage fails in another way than a missing method.
  EXPECT_NE(CallRaw(*with->InProcessChannel(), kMethod, "").status().code(),
            absl::StatusCode::kUnimplemented);
  HoldingService other(&metrics_);
  const auto without =
      ServerRuntime::Start({.binary = "second", .reflection = false}, {{&other, kName}}, metrics_);
  ASSERT_TRUE(without.ok());
  EXPECT_EQ(CallRaw(*(*without)->InProcessChannel(), kMethod, "").status().code(),
            absl::StatusCode::kUnimplemented);
}

TEST_F(ServerRuntimeTest, MessagesAboveTheLimitAreRefused) {
  const auto runtime = MustStart({});
  const std::string method = absl::StrCat("/", kName, "/ListModels");
  const auto channel = *runtime->InProcessChannel();
  const auto refused = CallRaw(channel, method, std::string(kTransportMessageBytes + 1, '\0'));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted) << refused.status();
  EXPECT_TRUE(AskForModels(channel).ok());
}

TEST_F(ServerRuntimeTest, OldConnectionsAreRenewedAndTheirCallsFinish) {
  const auto runtime =
      MustStart({.listen = "127.0.0.1:0", .max_connection_age = absl::Milliseconds(200)});
  const auto channel = Connect(runtime->address());
  HeldCall call(channel);
  service_.started.WaitForNotification();
  // The server asks for another connection: the channel is not ready until there is a new call.
  EXPECT_TRUE(channel->WaitForStateChange(GRPC_CHANNEL_READY, PatientDeadline()));
  EXPECT_TRUE(AskForModels(channel).ok());
  service_.release = true;
  const grpc::Status held = call.Join();
  EXPECT_TRUE(held.ok()) << held.error_message();
}

TEST_F(ServerRuntimeTest, DrainingRefusesNewCallsAndFinishesRunningOnes) {
  std::vector<std::string> order;
  auto runtime =
      MustStart({.listen = "127.0.0.1:0"}, {.before_shutdown = [&] { order.push_back("before"); },
                                            .after_shutdown =
                                                [&] {
                                                  order.push_back("after");
                                                  return absl::OkStatus();
                                                }});
  runtime->SetReady(true);
  const auto channel = Connect(runtime->address());
  HeldCall call(channel);
  service_.started.WaitForNotification();
  std::thread releaser([&] {
    absl::SleepFor(absl::Milliseconds(50));
    service_.release = true;
  });
  EXPECT_TRUE(runtime->Drain().ok());
  const grpc::Status held = call.Join();
  releaser.join();
  EXPECT_TRUE(held.ok()) << held.error_message();
  EXPECT_THAT(order, ::testing::ElementsAre("before", "after"));
  EXPECT_FALSE(AskForModels(channel).ok());
  EXPECT_EQ(runtime->InProcessChannel().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(runtime->Drain().ok());  // again: nothing happens
  EXPECT_EQ(order.size(), 2u);
}

TEST_F(ServerRuntimeTest, ACallThatDoesNotEndIsCancelledAfterTheDrainTimeout) {
  auto runtime = MustStart({.listen = "127.0.0.1:0", .drain_timeout = absl::Milliseconds(100)});
  const auto channel = Connect(runtime->address());
  HeldCall call(channel);
  service_.started.WaitForNotification();
  EXPECT_TRUE(runtime->Drain().ok());
  const grpc::Status held = call.Join();
  EXPECT_FALSE(held.ok());
  EXPECT_NE(held.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED) << "its own end was later";
}

// A client that has introduced itself and does not read: it confirms nothing.
int ConnectSilently(const std::string& address) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<uint16_t>(ParseListenAddress(address)->port));
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&name), sizeof(name)), 0);
  const std::string hello("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0", 33);
  EXPECT_EQ(::send(fd, hello.data(), hello.size(), 0), static_cast<ssize_t>(hello.size()));
  // The server's own introduction: its transport exists.
  char byte = 0;
  EXPECT_EQ(::recv(fd, &byte, 1, 0), 1);
  return fd;
}

TEST_F(ServerRuntimeTest, AStopDoesNotWaitForClientsThatAreNotCalling) {
  auto runtime = MustStart({.listen = "127.0.0.1:0", .drain_timeout = 2 * kPatience},
                           {.running_calls = [this] { return service_.running_calls(); }});
  const int silent = ConnectSilently(runtime->address());
  const absl::Time start = absl::Now();
  EXPECT_TRUE(runtime->Drain().ok());
  EXPECT_LT(absl::Now() - start, kPatience);
  ::close(silent);
}

TEST_F(ServerRuntimeTest, AStopWaitsForTheCallsOfOthersBeforeItHangsUpOnClients) {
  auto runtime = MustStart({.listen = "127.0.0.1:0", .drain_timeout = kPatience},
                           {.running_calls = [this] { return service_.running_calls(); }});
  const int silent = ConnectSilently(runtime->address());
  const auto channel = Connect(runtime->address());
  HeldCall call(channel);
  service_.started.WaitForNotification();
  std::thread releaser([&] {
    absl::SleepFor(absl::Seconds(1));  // longer than it has to be quiet
    service_.release = true;
  });
  EXPECT_TRUE(runtime->Drain().ok());
  const grpc::Status held = call.Join();
  releaser.join();
  EXPECT_TRUE(held.ok()) << held.error_message();
  ::close(silent);
}

TEST_F(ServerRuntimeTest, TheLastHooksErrorIsTheResult) {
  auto runtime =
      MustStart({}, {.after_shutdown = [] { return absl::UnavailableError("disk full"); }});
  EXPECT_EQ(runtime->Drain().message(), "disk full");
  EXPECT_EQ(runtime->Drain().message(), "disk full");
}

TEST_F(ServerRuntimeTest, ReadinessDoesNotComeBackAfterDraining) {
  auto runtime = MustStart({.admin = "127.0.0.1:0"});
  EXPECT_TRUE(runtime->Drain().ok());
  runtime->SetReady(true);
  const auto admin = ParseListenAddress(runtime->admin_address());
  ASSERT_TRUE(admin.ok());
  EXPECT_THAT(HttpGet(admin->port, "/readyz"), HasSubstr("not ready: draining"));
  EXPECT_THAT(HttpGet(admin->port, "/livez"), HasSubstr("200 OK"));
}

TEST_F(ServerRuntimeTest, HandlersAreCountedByCodeAndBytes) {
  const auto runtime = MustStart({});
  const auto channel = *runtime->InProcessChannel();
  ASSERT_TRUE(AskForModels(channel).ok());
  service_.result = StatusWithReason(absl::StatusCode::kNotFound, "UNKNOWN_MODEL", "no model");
  const grpc::Status failed = AskForModels(channel);
  EXPECT_EQ(ReasonOf(FromGrpcStatus(failed)), "UNKNOWN_MODEL");
  const std::string page = metrics_.Expose();
  for (const char* line :
       {"dslide_coordinator_messages_total{direction=\"received\",method=\"ListModels\"} 2\n",
        "dslide_coordinator_messages_total{direction=\"sent\",method=\"ListModels\"} 1\n",
        "dslide_coordinator_bytes_total{direction=\"sent\",method=\"ListModels\"} 5\n",
        "dslide_coordinator_bytes_total{direction=\"sent\",method=\"AcquireWork\"} 0\n"}) {
    EXPECT_THAT(page, HasSubstr(line));
  }
  EXPECT_THAT(page, ::testing::ContainsRegex(
                        "grpc_server_handled_total\\{[^}]*NotFound[^}]*ListModels[^}]*\\} 1"));
}

}  // namespace
}  // namespace dslide
