// The control plane as C++ calls. One method per RPC of dslide.v1.CoordinatorService that clients
// use.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/channel_factory.h"
#include "client/cpp/client_options.h"
#include "core/protocol/cluster_map.h"
#include "core/protocol/cluster_status.h"
#include "core/protocol/job_work.h"
#include "core/spec/model_growth.h"
#include "core/spec/model_spec.h"

namespace dslide {

struct FileList;  // core/system/file_list.h

class WireCounters;

// What a call does while it waits for an operation, about four times a second.
struct OperationWatch {
  std::function<void(const OperationStatus&)> on_progress = nullptr;
  // True: the operation is cancelled, and the call returns what came of it: Cancelled, or its
  // result where it was too late.
  std::function<bool()> stop_requested = nullptr;
};

// What a cluster was taken back to.
struct RestoredCheckpoint {
  uint64_t checkpoint_id = 0;
  std::vector<uint64_t> skipped;  // newer ones that are known to be damaged
};

// A place in an asset of a set of a model.
struct ModelAssetPlace {
  std::string model = {};
  uint32_t checksum = 0;  // of the set
  std::string name = {};
  int64_t offset = 0;
};

struct LabelRetirement {
  ModelSpec spec = {};  // afterwards
  int64_t retired_before = 0;
  int64_t retired = 0;
};

struct CheckpointSize {
  int64_t rows = 0;
  int64_t bytes = 0;
};

// Every call has a deadline (ClientOptions::timeout) and is safe to repeat: UNAVAILABLE is retried
// until then, unless the call says otherwise. Errors carry code, message and reason word
// (core/base/reason.h); the message names the coordinator's address, and the remedy when nobody
// answers there.
//
// Thread safety: safe from any thread; calls block the caller only.
class CoordinatorClient {
 public:
  // `counters` (may be null) must outlive the client. Does not connect yet.
  CoordinatorClient(const std::shared_ptr<grpc::Channel>& channel, std::string address,
                    ClientOptions options, WireCounters* counters);
  ~CoordinatorClient();
  CoordinatorClient(const CoordinatorClient&) = delete;
  CoordinatorClient& operator=(const CoordinatorClient&) = delete;

  const std::string& address() const;

  // Waits, within the deadline, until all expected shards have registered.
  // num_slots: of tables whose slots' owners are wanted.
  absl::StatusOr<ClusterMap> GetClusterMap(absl::Span<const int64_t> num_slots = {});
  absl::StatusOr<ClusterStatus> GetClusterStatus();

  // True when it was created, false when an equal model was there.
  absl::StatusOr<bool> RegisterModel(const ModelSpec& spec);
  absl::StatusOr<std::vector<ModelSpec>> ListModels();
  // Gives a table more rows, or the model more labels, on every shard, and returns the model as it
  // is then; dry_run: as it would be, if the shards have the memory.
  absl::StatusOr<ModelSpec> GrowModel(const std::string& model, const Growth& growth,
                                      bool dry_run = false);
  // Leaves labels, as "3,7-12", out of all predictions, or with restore takes them in again.
  // dry_run: only says what would be.
  absl::StatusOr<LabelRetirement> RetireLabels(const std::string& model, const std::string& labels,
                                               bool restore, bool dry_run = false);
  // force: also while jobs train it. Errors: FailedPrecondition JOB_RUNS else.
  absl::Status UnregisterModel(const std::string& model, bool force = false);

  // --- Assets of a model; one call, one piece (client/cli/cluster/model_assets.h moves whole
  // sets). Empty when the model has none. The checksum is the set's.
  absl::StatusOr<FileList> ListModelAssets(const std::string& model);
  // At most 1 MiB; "" at the end.
  absl::StatusOr<std::string> ReadModelAsset(const ModelAssetPlace& place);
  absl::Status WriteModelAsset(const ModelAssetPlace& place, std::string piece);
  // False when the model had that set. replaces: the checksum of a set that may be in its place.
  absl::StatusOr<bool> CommitModelAssets(const std::string& model, uint32_t checksum,
                                         std::optional<uint32_t> replaces = std::nullopt);

  // True when the job is new.
  absl::StatusOr<bool> RegisterJob(const JobSpec& job, const ClientId& client);
  // One attempt: the caller (WorkFeed) decides what to do while the coordinator is away.
  absl::StatusOr<Work> AcquireWork(const WorkRequest& work);
  // One attempt, of at most 5 s: leases of who cannot say it run out.
  absl::Status LeaveJob(const std::string& job, const ClientId& client);
  // Ends it; as it is then.
  absl::StatusOr<JobStatus> CancelJob(const std::string& job);
  // Of one that has ended.
  absl::Status DeleteJob(const std::string& job);

  // --- These take as long as the disks do: operations of the coordinator, whose end is waited for.
  // What still runs after `timeout` is cancelled.
  absl::StatusOr<CheckpointSize> CreateCheckpoint(const std::string& model,
                                                  const std::string& checkpoint,
                                                  absl::Duration timeout = absl::Minutes(10));
  // --- Of the whole cluster; as long as the disks take. checkpoint_id: 0 for the newest.
  absl::StatusOr<ClusterCheckpoint> CreateClusterCheckpoint(absl::Duration timeout = absl::Hours(1),
                                                            const OperationWatch& watch = {});
  absl::StatusOr<std::vector<ClusterCheckpoint>> ListClusterCheckpoints();
  // Return the id that was meant.
  absl::StatusOr<uint64_t> VerifyClusterCheckpoint(uint64_t checkpoint_id,
                                                   absl::Duration timeout = absl::Hours(1),
                                                   const OperationWatch& watch = {});
  // checkpoint_id: 0 for the newest that is not known to be damaged.
  absl::StatusOr<RestoredCheckpoint> RestoreClusterCheckpoint(
      uint64_t checkpoint_id, absl::Duration timeout = absl::Hours(1),
      const OperationWatch& watch = {});
  absl::StatusOr<std::vector<uint64_t>> PruneClusterCheckpoints(uint32_t keep);
  // The manifest as it is on the coordinator's disk, for a copy; and the way back, which returns
  // the id once every shard has verified its part.
  absl::StatusOr<std::string> GetClusterCheckpointManifest(uint64_t checkpoint_id);
  absl::StatusOr<uint64_t> AdoptClusterCheckpoint(const std::string& manifest,
                                                  absl::Duration timeout = absl::Hours(1),
                                                  const OperationWatch& watch = {});

  // Returns the rows restored.
  absl::StatusOr<int64_t> RestoreCheckpoint(const std::string& model, const std::string& checkpoint,
                                            absl::Duration timeout = absl::Minutes(10));

  // Asks an operation to end; it ends when it can, and not at all when it is too late.
  absl::StatusOr<OperationStatus> CancelOperation(const std::string& operation_id);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dslide
