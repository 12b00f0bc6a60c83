// A client that counts its own steps in rows of all shards: what a checkpoint shows of it is a
// number, and on every shard it has to be the same one.

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/cluster_client.h"
#include "client/cpp/shard_stream.h"
#include "core/base/ids.h"
#include "core/protocol/commands.h"
#include "core/spec/model_spec.h"

namespace dslide {

inline constexpr int64_t kTracerRows = 32;
inline constexpr char kTracerTable[] = "count";

// One table of kTracerRows rows, dealt over all shards. Each step of a tracer adds exactly 1 to
// every number, as long as they are below 2^24.
ModelSpec TracerModel(const std::string& name);

struct TracerOptions {
  std::string model = "tracer";
  // Steps that are sent before the oldest is answered, >= 1.
  int64_t in_flight = 1;
  // After every 16 steps; between them, as many are under way as may be.
  absl::Duration pause = absl::ZeroDuration();
};

// Takes steps on a thread of its own, from Start() to Stop() or to the first error: when its
// cluster was taken back, it has to be replaced by another one.
//
// Thread safety: safe from any thread, but Stop() and the destructor belong to one.
class Tracer {
 public:
  // Makes the model, or finds it with the counts of earlier tracers. Nobody else may change its
  // rows meanwhile.
  // Errors: those of the cluster; DataLoss when a shard's rows differ from each other.
  static absl::StatusOr<std::unique_ptr<Tracer>> Start(std::unique_ptr<ClusterClient> cluster,
                                                       TracerOptions options);
  ~Tracer();
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  // Takes no further step, waits for those under way, and says goodbye to the shards.
  void Stop();

  const ClientId& client() const { return client_; }
  // What each shard's rows showed at the start.
  const std::vector<int64_t>& counts() const { return counts_; }
  // Steps that all shards have confirmed; and all that were given to the streams so far.
  int64_t finished() const { return finished_; }
  int64_t sent() const { return sent_; }
  // Whether it has finished so many steps, in time.
  bool Await(int64_t steps) const;

  // Whether an error has ended it. Which one: once this is true, or after Stop().
  bool ended() const { return ended_; }
  const absl::Status& end() const { return end_; }

 private:
  Tracer(std::unique_ptr<ClusterClient> cluster, TracerOptions options);
  absl::Status Open();
  absl::Status ReadCounts(const SlotMap& slots);
  absl::Status Finish(const std::vector<std::shared_ptr<PendingStep>>& step);
  void Run();

  const std::unique_ptr<ClusterClient> cluster_;
  const TracerOptions options_;
  const ModelSpec spec_;
  const ClientId client_;
  std::vector<int64_t> counts_;
  std::vector<std::unique_ptr<ShardStream>> streams_;
  std::vector<RowBlock> gradients_;  // by shard: the same in every step
  std::atomic<bool> stop_ = false;
  std::atomic<bool> ended_ = false;
  std::atomic<int64_t> finished_ = 0;
  std::atomic<int64_t> sent_ = 0;
  absl::Status end_;  // written by the thread before ended_, or before it is joined
  std::thread thread_;
};

}  // namespace dslide
