// The real dslide-coordinator as a process: start, signals, exit codes.

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/system/listen_address.h"
#include "dslide/v1/coordinator.grpc.pb.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "tests/unit/core/net/http/http_get.h"
#include "tests/unit/patience.h"

namespace dslide {
namespace {

using ::testing::HasSubstr;

// A child process whose stderr is read here.
class Process {
 public:
  explicit Process(const std::vector<std::string>& flags) {
    int pipe_ends[2];
    EXPECT_EQ(::pipe(pipe_ends), 0);
    std::vector<char*> argv = {const_cast<char*>(DSLIDE_COORDINATOR_BINARY)};
    for (const std::string& flag : flags) argv.push_back(const_cast<char*>(flag.c_str()));
    argv.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(pipe_ends[1], STDERR_FILENO);
      ::close(pipe_ends[0]);
      ::close(pipe_ends[1]);
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    ::close(pipe_ends[1]);
    stderr_ = pipe_ends[0];
  }
  ~Process() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    ::close(stderr_);
  }

  // Reads stderr until `text` has come, or the process has closed it, or patience is at its end.
  bool AwaitText(const std::string& text) {
    const absl::Time deadline = absl::Now() + kPatience;
    while (!absl::StrContains(output_, text) && absl::Now() < deadline) {
      pollfd source{stderr_, POLLIN, 0};
      if (::poll(&source, 1, 100) <= 0) continue;
      char buffer[4096];
      const ssize_t count = ::read(stderr_, buffer, sizeof(buffer));
      if (count <= 0) break;
      output_.append(buffer, static_cast<size_t>(count));
    }
    return absl::StrContains(output_, text);
  }
  // The value of key=value in the output.
  std::string Value(const std::string& key) const {
    const size_t start = output_.find(" " + key + "=");
    if (start == std::string::npos) return "";
    const size_t value = start + key.size() + 2;
    return output_.substr(value, output_.find_first_of(" \n", value) - value);
  }
  void Signal(int number) const { ::kill(pid_, number); }
  // The exit code (128 + n for a signal); waits.
  int Wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  const std::string& output() const { return output_; }

 private:
  pid_t pid_ = -1;
  int stderr_ = -1;
  std::string output_;
};

class CoordinatorBinaryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = absl::StrCat(::testing::TempDir(), "coordinator_binary.", getpid());
    std::filesystem::remove_all(dir_);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  static std::vector<std::string> Flags(std::vector<std::string> more = {}) {
    std::vector<std::string> flags = {"--listen=127.0.0.1:0", "--admin=127.0.0.1:0"};
    flags.insert(flags.end(), more.begin(), more.end());
    return flags;
  }
  static int PortOf(const std::string& address) { return ParseListenAddress(address)->port; }

  static v1::RegisterShardResponse RegisterShard(const std::string& address, char instance) {
    const auto stub = v1::CoordinatorService::NewStub(
        grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    context.set_deadline(PatientDeadline());
    v1::RegisterShardRequest request;
    request.set_address("127.0.0.1:1");
    request.set_capacity_weight(1.0);
    request.set_instance_id(std::string(16, instance));
    v1::RegisterShardResponse response;
    const grpc::Status status = stub->RegisterShard(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }

  std::string dir_;
};

TEST_F(CoordinatorBinaryTest, ServesAndStopsInGoodOrder) {
  for (const int signal : {SIGTERM, SIGINT}) {
    Process process(Flags());
    ASSERT_TRUE(process.AwaitText("coordinator ready")) << process.output();
    EXPECT_EQ(RegisterShard(process.Value("address"), 'a').generation(), 1u);
    const std::string page = HttpGet(PortOf(process.Value("admin")), "/metrics");
    EXPECT_THAT(page, HasSubstr("dslide_coordinator_registered_shards{health=\"alive\"} 1\n"));
    EXPECT_THAT(page, HasSubstr("dslide_build_info{"));
    process.Signal(signal);
    EXPECT_EQ(process.Wait(), 0);
  }
}

TEST_F(CoordinatorBinaryTest, AFailedCallIsFoundInTheLogByItsRequestId) {
  Process process(Flags({"--log-format=json"}));
  ASSERT_TRUE(process.AwaitText("coordinator ready")) << process.output();
  const nlohmann::json ready = nlohmann::json::parse(process.output());
  const auto stub = v1::CoordinatorService::NewStub(
      grpc::CreateChannel(ready["address"], grpc::InsecureChannelCredentials()));
  for (const std::string& sent : {std::string("mine"), std::string(65, 'x')}) {
    grpc::ClientContext context;
    context.set_deadline(PatientDeadline());
    context.AddMetadata("x-request-id", sent);
    v1::UnregisterModelRequest request;
    request.set_model("none");
    v1::UnregisterModelResponse response;
    const grpc::Status status = stub->UnregisterModel(&context, request, &response);
    google::rpc::Status details;
    ASSERT_TRUE(details.ParseFromString(status.error_details()));
    google::rpc::RequestInfo info;
    for (const auto& detail : details.details()) (void)detail.UnpackTo(&info);
    // What is no id is replaced, and the answer says by what.
    EXPECT_EQ(info.request_id() == sent, sent == "mine");
    EXPECT_TRUE(process.AwaitText(
        absl::StrCat("\"request\":\"", info.request_id(), "\",\"method\":\"UnregisterModel\"")))
        << process.output();
  }
}

TEST_F(CoordinatorBinaryTest, IsNotReadyWhileItDrains) {
  Process process(Flags({"--drain-delay=60s"}));
  ASSERT_TRUE(process.AwaitText("coordinator ready")) << process.output();
  const int port = PortOf(process.Value("admin"));
  EXPECT_THAT(HttpGet(port, "/readyz"), HasSubstr("200 OK"));
  process.Signal(SIGTERM);
  ASSERT_TRUE(process.AwaitText("stopping"));
  std::string answer;
  for (int i = 0; i < 1000 && !absl::StrContains(answer, "503"); ++i) {
    answer = HttpGet(port, "/readyz");
  }
  EXPECT_THAT(answer, HasSubstr("not ready: draining"));
  EXPECT_THAT(HttpGet(port, "/livez"), HasSubstr("200 OK"));
  process.Signal(SIGTERM);  // a second one does not wait for the 60 s
  EXPECT_EQ(process.Wait(), 128 + SIGTERM);
}

TEST_F(CoordinatorBinaryTest, ATakenPortIsAnExplainedExit) {
  Process first(Flags());
  ASSERT_TRUE(first.AwaitText("coordinator ready")) << first.output();
  Process second({"--listen", first.Value("address"), "--admin="});
  EXPECT_TRUE(second.AwaitText("another process listens there")) << second.output();
  EXPECT_THAT(second.output(), HasSubstr(first.Value("address")));
  EXPECT_EQ(second.Wait(), 3);
  Process third({"--listen=127.0.0.1:0", "--admin", first.Value("admin")});
  EXPECT_TRUE(third.AwaitText("another process listens there")) << third.output();
  EXPECT_EQ(third.Wait(), 3);
}

TEST_F(CoordinatorBinaryTest, WrongSettingsExitWithTwo) {
  for (const char* flag : {"--shards=0", "--lisen=x", "--listen=0.0.0.0:0", "--config=/no/file"}) {
    Process process({flag});
    process.AwaitText("--help shows all settings");
    EXPECT_EQ(process.Wait(), 2) << flag;
  }
  Process check(Flags({"--check-config"}));
  EXPECT_EQ(check.Wait(), 0);
}

TEST_F(CoordinatorBinaryTest, GenerationsSurviveAKill) {
  for (char instance = 'a'; instance < 'e'; ++instance) {
    Process process(Flags({"--data-dir", dir_}));
    ASSERT_TRUE(process.AwaitText("coordinator ready")) << process.output();
    EXPECT_EQ(RegisterShard(process.Value("address"), instance).generation(),
              static_cast<uint64_t>(instance - 'a' + 1));
    process.Signal(SIGKILL);
    EXPECT_EQ(process.Wait(), 128 + SIGKILL);
  }
}

TEST_F(CoordinatorBinaryTest, ADamagedOrUsedDataDirectoryExitsWithFour) {
  {
    Process process(Flags({"--data-dir", dir_}));
    ASSERT_TRUE(process.AwaitText("coordinator ready")) << process.output();
    RegisterShard(process.Value("address"), 'a');
    Process second(Flags({"--data-dir", dir_}));
    EXPECT_TRUE(second.AwaitText("in use by another coordinator")) << second.output();
    EXPECT_EQ(second.Wait(), 4);
    process.Signal(SIGTERM);
    EXPECT_EQ(process.Wait(), 0);
  }
  for (const auto& entry : std::filesystem::directory_iterator(dir_ + "/catalog")) {
    if (entry.path().extension() != ".sst") continue;
    std::ofstream(entry.path(), std::ios::binary | std::ios::trunc) << "not a table";
  }
  Process damaged(Flags({"--data-dir", dir_}));
  EXPECT_TRUE(damaged.AwaitText("is damaged")) << damaged.output();
  EXPECT_EQ(damaged.Wait(), 4);
}

}  // namespace
}  // namespace dslide
