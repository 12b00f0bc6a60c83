// The scatters of one client to one shard, one at a time and each exactly once.

#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "client/cpp/client_options.h"
#include "client/cpp/shard_client.h"

namespace dslide {

// Numbers the scatters, sends them in order, and when an answer is lost asks the shard which number
// it expects next: so "unknown" becomes "applied" or is sent again, until the deadline.
//
// Thread safety: safe from any thread. Callbacks run on the queue's thread.
class ScatterQueue {
 public:
  // `shard` must outlive the queue. The thread starts with the first scatter.
  ScatterQueue(ShardClient& shard, ClientOptions options, ClientId client,
               uint64_t topology_version);
  // Finishes what was submitted.
  ~ScatterQueue();
  ScatterQueue(const ScatterQueue&) = delete;
  ScatterQueue& operator=(const ScatterQueue&) = delete;

  // The envelope's job, client and numbers are filled in here.
  void Submit(ScatterCommand command, std::function<void(ScatterResult)> done);

 private:
  struct Item {
    std::shared_ptr<ScatterCommand> command;  // shared with the transport while it is sent
    std::function<void(ScatterResult)> done;
    absl::Time deadline;
  };

  void Run();
  ScatterResult Send(Item& item);
  // Learns the next number and generation. Outcome of scatter `sequence` by what the shard expects.
  absl::StatusOr<Outcome> Ask(uint64_t sequence, absl::Time deadline);

  ShardClient& shard_;
  const ClientOptions options_;
  const ClientId client_;
  const uint64_t topology_version_;
  // Of the queue's thread.
  bool introduced_ = false;
  uint64_t generation_ = 0;
  uint64_t next_sequence_ = 1;

  absl::Mutex mu_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool started_ ABSL_GUARDED_BY(mu_) = false;
  std::deque<Item> items_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace dslide
