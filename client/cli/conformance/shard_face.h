// A shard as the client of the course sees it: looks at every call, makes some trouble that clients
// must get over, and leaves the work to the real shard behind it.

#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/sync_stream.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "client/cli/conformance/course_checks.h"
#include "client/cli/conformance/forwarded_call.h"
#include "dslide/v1/shard.grpc.pb.h"

namespace dslide::cli {

// Each happens once, at one shard, by the count of calls: a client meets the same every time.
enum class Trouble {
  kNone,
  kRefused,     // UNAVAILABLE before anything was done
  kBusy,        // RESOURCE_EXHAUSTED with a pause
  kLostAnswer,  // done, and the connection breaks before the client is told
  kMoved,       // the same, and another process owns the shard afterwards
};

// Thread safety: safe from any thread. Handlers block.
class ShardFace final : public v1::ShardService::Service {
 public:
  using Context = grpc::ServerContext;

  // `checks` outlives it.
  ShardFace(int shard, const std::shared_ptr<grpc::Channel>& channel, CourseChecks& checks);

  int shard() const { return shard_; }
  CourseChecks& checks() { return checks_; }
  v1::ShardService::Stub& stub() { return *stub_; }

  // Generations as clients know them, whatever process of the course "owns" the shard; 0 stays 0.
  uint64_t Shown(uint64_t generation) const;
  // What a client must send now.
  uint64_t CurrentGeneration() const { return Shown(real_generation_); }
  // The real shard's number for one that a client has sent; some other for one that is not current.
  uint64_t Real(uint64_t generation) const;
  void Move() { ++moved_; }

  // What happens to the client's next operation or scatter. `idle`: all before it are answered.
  Trouble NextStepTrouble(bool idle) ABSL_LOCKS_EXCLUDED(mu_);
  Trouble NextScatterTrouble() ABSL_LOCKS_EXCLUDED(mu_);

  grpc::Status GetServerInfo(Context* context, const v1::GetServerInfoRequest* request,
                             v1::GetServerInfoResponse* response) override;
  grpc::Status Hello(Context* context, const v1::HelloRequest* request,
                     v1::HelloResponse* response) override;
  grpc::Status CloseClient(Context* context, const v1::CloseClientRequest* request,
                           v1::CloseClientResponse* response) override;
  grpc::Status Step(Context* context,
                    grpc::ServerReaderWriter<v1::StepResponse, v1::StepRequest>* stream) override;
  grpc::Status Gather(Context* context, const v1::GatherRequest* request,
                      grpc::ServerWriter<v1::GatherResponse>* writer) override;
  grpc::Status Scatter(Context* context, grpc::ServerReader<v1::ScatterRequest>* reader,
                       v1::ScatterResponse* response) override;
  grpc::Status Read(Context* context, const v1::ReadRequest* request,
                    v1::ReadResponse* response) override;
  grpc::Status TopK(Context* context, const v1::TopKRequest* request,
                    v1::TopKResponse* response) override;
  grpc::Status DescribeModel(Context* context, const v1::DescribeModelRequest* request,
                             v1::DescribeModelResponse* response) override;
  grpc::Status ReadRows(Context* context, const v1::ReadRowsRequest* request,
                        v1::ReadRowsResponse* response) override;

 private:
  void Check(const Context& context, absl::string_view call,
             DeadlineRule rule = DeadlineRule::kNeeded);

  const int shard_;
  CourseChecks& checks_;
  const std::unique_ptr<v1::ShardService::Stub> stub_;
  std::atomic<uint64_t> real_generation_ = 0;  // as the shard has answered it
  std::atomic<uint64_t> moved_ = 0;            // how often another process took it
  absl::Mutex mu_;
  int64_t steps_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t scatters_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t gathers_ ABSL_GUARDED_BY(mu_) = 0;
  bool was_busy_ ABSL_GUARDED_BY(mu_) = false;
};

// The errors of the course, with the words that a shard says in such a case.
grpc::Status BrokenConnection();
absl::Status BusyShard();

}  // namespace dslide::cli
