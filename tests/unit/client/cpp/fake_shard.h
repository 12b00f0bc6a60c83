// A scripted shard: answers every step with EmbedBackwardResult{distinct_rows = sequence},
// remembers what it saw, and breaks the stream where a test asks for it.

#pragma once

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "dslide/v1/shard.grpc.pb.h"

namespace dslide {

class FakeShard final : public v1::ShardService::Service {
 public:
  FakeShard() {
    grpc::ServerBuilder builder;
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~FakeShard() override { server_->Shutdown(std::chrono::system_clock::now()); }

  std::shared_ptr<grpc::Channel> Channel() {
    return server_->InProcessChannel(grpc::ChannelArguments());
  }

  // The stream ends with UNAVAILABLE when this sequence arrives; it is applied first if `applied`.
  void BreakAt(uint64_t sequence, bool applied) {
    absl::MutexLock lock(&mu_);
    break_at_ = sequence;
    apply_before_break_ = applied;
  }
  // Forgets every client and takes a new generation, as after a restart without a log.
  void ForgetEverything() {
    absl::MutexLock lock(&mu_);
    applied_ = 0;
    ++generation_;
  }
  // Takes a new generation and keeps its state, as after a restart with one.
  void ChangeGeneration() {
    absl::MutexLock lock(&mu_);
    ++generation_;
  }
  // From the next Hello on, as a shard of another version would.
  void Announce(const std::vector<std::string>& capabilities) {
    absl::MutexLock lock(&mu_);
    capabilities_ = capabilities;
  }
  void AnswerTwice() { answers_twice_ = true; }
  void NeverAnswer() { silent_ = true; }
  // Closes are answered when so many have come, or their callers have gone.
  void HoldClosesUntil(int count) { closes_together_ = count; }
  // Closes are answered as if nobody were there.
  void RefuseCloses() { refuse_closes_ = true; }
  void RefuseSequence(uint64_t sequence) { refuse_ = sequence; }
  // Refuses a sequence that often with `code`, leaving its number unused.
  void Refuse(uint64_t sequence, int times, absl::StatusCode code, const char* reason = "REFUSED") {
    absl::MutexLock lock(&mu_);
    open_refusals_[sequence] = {times, code};
    open_reason_ = reason;
  }
  void RefuseHello(int times) { refuse_hello_ = times; }

  // How often each sequence was applied: [sequence].
  std::vector<int> Applied() {
    absl::MutexLock lock(&mu_);
    return times_;
  }
  std::vector<uint64_t> Arrivals() {
    absl::MutexLock lock(&mu_);
    return arrivals_;
  }
  int streams() const { return streams_; }
  // What the last Hello said.
  uint64_t acknowledged() {
    absl::MutexLock lock(&mu_);
    return acknowledged_;
  }
  // Requests with packed ids, or with gradients without their zeros.
  int packed() const { return packed_; }

  grpc::Status Hello(grpc::ServerContext*, const v1::HelloRequest* request,
                     v1::HelloResponse* response) override {
    if (refuse_hello_.fetch_sub(1) > 0) return {grpc::StatusCode::UNAVAILABLE, "not yet"};
    absl::MutexLock lock(&mu_);
    acknowledged_ = request->acknowledged_sequence();
    response->set_generation(generation_);
    response->set_next_sequence(applied_ + 1);
    response->mutable_capabilities()->Add(capabilities_.begin(), capabilities_.end());
    return grpc::Status::OK;
  }

  grpc::Status CloseClient(grpc::ServerContext* context, const v1::CloseClientRequest*,
                           v1::CloseClientResponse*) override {
    ++closes_begun_;
    while (closes_begun_ < closes_together_ && !context->IsCancelled()) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    if (context->IsCancelled()) return grpc::Status::CANCELLED;
    ++closes;
    return refuse_closes_ ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "nobody is here")
                          : grpc::Status::OK;
  }

  grpc::Status Step(grpc::ServerContext* context,
                    grpc::ServerReaderWriter<v1::StepResponse, v1::StepRequest>* stream) override {
    ++streams_;
    v1::StepRequest request;
    while (stream->Read(&request)) {
      while (silent_ && !context->IsCancelled()) absl::SleepFor(absl::Milliseconds(1));
      v1::StepResponse response;
      if (!Handle(request, &response)) return {grpc::StatusCode::UNAVAILABLE, "broken on purpose"};
      stream->Write(response);
      if (answers_twice_) stream->Write(response);
    }
    return grpc::Status::OK;
  }

  std::atomic<int> closes{0};

 private:
  bool Handle(const v1::StepRequest& request, v1::StepResponse* response) {
    absl::MutexLock lock(&mu_);
    const uint64_t sequence = request.envelope().sequence();
    arrivals_.push_back(sequence);
    if (!request.embed_forward().packed_row_ids().empty()) ++packed_;
    if (!request.embed_backward().gradient().present().empty()) ++packed_;
    response->set_sequence(sequence);
    response->set_generation(generation_);
    const bool breaks = sequence == break_at_;
    if (breaks) break_at_ = 0;
    if (breaks && !apply_before_break_) return false;
    if (request.envelope().generation() != generation_) {
      response->mutable_error()->set_code(static_cast<int>(absl::StatusCode::kFailedPrecondition));
      response->mutable_error()->set_reason("STALE_GENERATION");
      return true;
    }
    const uint64_t first_incomplete = request.envelope().first_incomplete();
    applied_ = std::max(applied_, first_incomplete - 1);  // what was given up is skipped
    if (sequence > applied_ + 1) {
      response->mutable_error()->set_code(static_cast<int>(absl::StatusCode::kFailedPrecondition));
      response->mutable_error()->set_reason("SEQUENCE_GAP");
      return true;
    }
    if (auto it = open_refusals_.find(sequence);
        it != open_refusals_.end() && it->second.first-- > 0) {
      response->mutable_error()->set_code(static_cast<int>(it->second.second));
      response->mutable_error()->set_reason(open_reason_);
      response->mutable_error()->mutable_retry_after()->set_nanos(2'000'000);
      return true;
    }
    if (sequence == applied_ + 1) {
      ++applied_;
      if (times_.size() <= sequence) times_.resize(sequence + 1);
      ++times_[sequence];
    }
    if (breaks) return false;
    if (sequence == refuse_) {
      response->mutable_error()->set_code(static_cast<int>(absl::StatusCode::kInvalidArgument));
      response->mutable_error()->set_message("row 91 is not here");
      response->mutable_error()->set_reason("FOREIGN_ROW");
      return true;
    }
    response->mutable_embed_backward()->set_distinct_rows(static_cast<int64_t>(sequence));
    return true;
  }

  std::atomic<bool> silent_{false};
  std::atomic<bool> answers_twice_{false};
  std::atomic<bool> refuse_closes_{false};
  std::atomic<int> closes_together_{0};
  std::atomic<int> closes_begun_{0};
  std::atomic<uint64_t> refuse_{0};
  std::atomic<int> refuse_hello_{0};
  std::atomic<int> streams_{0};
  std::atomic<int> packed_{0};
  absl::Mutex mu_;
  uint64_t generation_ ABSL_GUARDED_BY(mu_) = 7;
  uint64_t applied_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t acknowledged_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<std::string> capabilities_ ABSL_GUARDED_BY(mu_);
  uint64_t break_at_ ABSL_GUARDED_BY(mu_) = 0;
  bool apply_before_break_ ABSL_GUARDED_BY(mu_) = false;
  std::map<uint64_t, std::pair<int, absl::StatusCode>> open_refusals_ ABSL_GUARDED_BY(mu_);
  std::string open_reason_ ABSL_GUARDED_BY(mu_);
  std::vector<int> times_ ABSL_GUARDED_BY(mu_);
  std::vector<uint64_t> arrivals_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace dslide
