#include "services/coordinator/control/cluster_registry.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/partition/slot_map.h"
#include "core/protocol/coordinator_reason_words.h"
#include "core/system/log.h"

namespace dslide::coordinator {
namespace {

// Of a shard: its own page ends with it.
Counter FailedLogs(Metrics& metrics, ShardId shard) {
  return metrics.AddCounter("dslide_coordinator_shard_log_failures_total",
                            "Times that a shard ended because its command log had failed.",
                            {{"shard", absl::StrCat(shard.value())}});
}

}  // namespace

ClusterRegistry::ClusterRegistry(const MembershipOptions& options, const Clock* clock,
                                 std::unique_ptr<CatalogStore> store, RestoreMark* mark,
                                 uint64_t restore_count, Metrics* metrics)
    : expected_shards_(options.expected_shards),
      metrics_(metrics),
      mark_(mark),
      store_(std::move(store)),
      membership_(options, clock),
      restore_count_(restore_count) {
  AddMetrics();
  if (!RollbackPending()) return;
  LogWarning("the cluster was to be taken back to a checkpoint when the coordinator ended",
             {{"checkpoint_id", *mark_->checkpoint_id()}});
  rollback_requested_ = true;
  restoring_ = mark_->begun();
}

ClusterRegistry::~ClusterRegistry() { metrics_->RemoveCallbacks(this); }

absl::Status ClusterRegistry::Load() {
  const absl::MutexLock lock(&mu_);
  if (store_ == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(const CatalogContent content, store_->Load());
  for (const ModelSpec& spec : content.models) RETURN_IF_ERROR(catalog_.Add(spec).status());
  if (content.membership.has_value()) {
    RETURN_IF_ERROR(membership_.Restore(*content.membership, !catalog_.empty()));
    for (const ShardInfo& shard : membership_.Shards()) unseen_.insert(shard.shard);
  }
  LogInfo("catalog loaded", {{"models", catalog_.size()},
                             {"shards", membership_.Shards().size()},
                             {"topology_version", membership_.topology_version()}});
  return absl::OkStatus();
}

void ClusterRegistry::Stop() {
  const absl::MutexLock lock(&mu_);
  stopped_ = true;
}

// The mark is there for as long as anybody may have to go back.
bool ClusterRegistry::RollbackPending() const {
  return mark_ != nullptr && mark_->checkpoint_id().has_value();
}

// --- Metrics
// ---------------------------------------------------------------------------------------

void ClusterRegistry::AddMetrics() {
  metrics_->AddGauge("dslide_coordinator_expected_shards", "Shards the cluster is made of.")
      .Set(static_cast<double>(expected_shards_));
  const auto gauge = [this](const char* name, const char* help, const MetricLabels& labels,
                            std::function<double()> read) {
    metrics_->AddGaugeCallback(this, name, help, labels, std::move(read));
  };
  for (const ShardHealth health : {ShardHealth::kAlive, ShardHealth::kLost, ShardHealth::kLeft}) {
    gauge("dslide_coordinator_registered_shards", "Registered shards by health.",
          {{"health", ShardHealthName(health)}}, [this, health] { return CountShards(health); });
  }
  gauge("dslide_coordinator_topology_version", "Version of the slot map; 0 before the first.", {},
        [this] { return static_cast<double>(topology_version()); });
  gauge("dslide_coordinator_models", "Registered models.", {}, [this] {
    const absl::MutexLock lock(&mu_);
    return static_cast<double>(catalog_.size());
  });
  AddSlotMetrics();
}

void ClusterRegistry::AddSlotMetrics() {
  for (int64_t i = 0; i < expected_shards_; ++i) {
    const ShardId shard(static_cast<int32_t>(i));
    metrics_->AddGaugeCallback(
        this, "dslide_coordinator_slots",
        absl::StrCat("Slots of a table of ", kDefaultNumSlots,
                     " that each shard owns; 0 before all shards have registered."),
        {{"shard", absl::StrCat(i)}}, [this, shard] { return SlotsOf(shard); });
  }
}

double ClusterRegistry::SlotsOf(ShardId shard) const {
  const absl::MutexLock lock(&mu_);
  if (slots_version_ != membership_.topology_version()) {
    slots_version_ = membership_.topology_version();
    slots_.assign(static_cast<size_t>(expected_shards_), 0);
    const absl::StatusOr<ClusterMap> map = membership_.Map();
    const absl::StatusOr<SlotMap> dealt =
        map.ok() ? SlotMap::Deal(kDefaultNumSlots, CapacityWeights(map->shards)) : map.status();
    if (!dealt.ok()) {
      slots_version_ = 0;  // a shard is missing: look again next time
      return 0;
    }
    for (const ShardId owner : dealt->owners()) ++slots_[static_cast<size_t>(owner.value())];
  }
  const auto at = static_cast<size_t>(shard.value());
  return at < slots_.size() ? static_cast<double>(slots_[at]) : 0;
}

double ClusterRegistry::CountShards(ShardHealth health) const {
  const std::vector<ShardInfo> shards = Shards();
  return static_cast<double>(
      std::count_if(shards.begin(), shards.end(),
                    [health](const ShardInfo& shard) { return shard.health == health; }));
}

// --- Shards
// ----------------------------------------------------------------------------------------

absl::StatusOr<Ownership> ClusterRegistry::Register(const ShardRegistration& request,
                                                    const std::vector<ModelSpec>& models) {
  const absl::MutexLock lock(&mu_);
  std::vector<const ModelSpec*> unknown;
  for (const ModelSpec& spec : models) {
    const absl::StatusOr<bool> is_new = catalog_.LacksOf(spec);
    if (!is_new.ok()) {
      return StatusWithReason(
          is_new.status().code(), ReasonOf(is_new.status()),
          absl::StrCat("the shard at ", EscapeForLog(request.address, 80), " holds model \"",
                       EscapeForLog(spec.name, 80), "\": ", is_new.status().message()));
    }
    if (*is_new) unknown.push_back(&spec);
  }
  ASSIGN_OR_RETURN(Ownership owner, membership_.Register(request, !catalog_.empty()));
  FailedLogs(*metrics_, owner.shard);  // at 0, so that an alert sees the first one
  // One that a crash has taken the rows of has fewer models than the cluster. Before the generation
  // is kept: it is news only once.
  if (owner.is_new && mark_ != nullptr && LacksModels(models)) {
    RETURN_IF_ERROR(mark_->Want());
    rollback_requested_ = true;
  }
  if (store_ != nullptr) RETURN_IF_ERROR(store_->PutMembership(membership_.Record()));
  for (const ModelSpec* spec : unknown) {
    const ModelSpec* const known = catalog_.Find(spec->name);
    // Its growth was recorded by a coordinator that has kept nothing: the others are to grow, too.
    for (const ShardInfo& shard : membership_.Shards()) {
      if (known != nullptr) returned_.try_emplace(shard.shard, shard.generation);
    }
    RETURN_IF_ERROR(PutModelLocked(catalog_.WithHeld(*spec)));
    LogInfo("model adopted from a shard", {{"model", spec->name}, {"shard", owner.shard.value()}});
  }
  if (owner.is_new) {
    LogInfo("shard registered", {{"shard", owner.shard.value()},
                                 {"generation", owner.generation},
                                 {"address", request.address},
                                 {"weight", request.capacity_weight},
                                 {"models", models.size()},
                                 {"topology_version", membership_.topology_version()}});
    returned_[owner.shard] = owner.generation;
  }
  owner.rollback_pending = RollbackPending();
  return owner;
}

bool ClusterRegistry::LacksModels(const std::vector<ModelSpec>& models) const {
  const std::vector<ModelSpec> all = catalog_.List();
  return std::any_of(all.begin(), all.end(), [&](const ModelSpec& known) {
    return std::none_of(models.begin(), models.end(),
                        [&](const ModelSpec& spec) { return spec.name == known.name; });
  });
}

absl::StatusOr<HeartbeatAnswer> ClusterRegistry::Heartbeat(ShardId shard, uint64_t generation,
                                                           int64_t memory_bytes,
                                                           int64_t applied_commands) {
  const absl::MutexLock lock(&mu_);
  RETURN_IF_ERROR(membership_.Heartbeat(shard, generation, memory_bytes, applied_commands));
  // One that registered right before the last coordinator ended may still lack models.
  if (unseen_.erase(shard) > 0) returned_.try_emplace(shard, generation);
  return HeartbeatAnswer{.topology_version = membership_.topology_version(),
                         .rollback_pending = RollbackPending()};
}

absl::Status ClusterRegistry::Deregister(ShardId shard, uint64_t generation, bool log_failed) {
  const absl::MutexLock lock(&mu_);
  RETURN_IF_ERROR(membership_.Deregister(shard, generation));
  returned_.erase(shard);
  if (log_failed) {
    FailedLogs(*metrics_, shard).Increment();
    LogError("the command log of a shard has failed", {{"shard", shard.value()}});
  }
  LogInfo("shard left", {{"shard", shard.value()}, {"generation", generation}});
  return store_ == nullptr ? absl::OkStatus() : store_->PutMembership(membership_.Record());
}

absl::StatusOr<ClusterMap> ClusterRegistry::Map() const {
  const absl::MutexLock lock(&mu_);
  if (restoring_) {
    return StatusWithReason(
        absl::StatusCode::kUnavailable, reason::kNotAllShards,
        "the cluster is being taken back to a checkpoint: ask again in a moment");
  }
  return MapLocked();
}

absl::StatusOr<ClusterMap> ClusterRegistry::FullMap() const {
  const absl::MutexLock lock(&mu_);
  return MapLocked();
}

absl::StatusOr<ClusterMap> ClusterRegistry::MapLocked() const {
  ASSIGN_OR_RETURN(ClusterMap map, membership_.Map());
  map.restore_count = restore_count_;
  return map;
}

std::vector<ShardInfo> ClusterRegistry::Shards() const {
  const absl::MutexLock lock(&mu_);
  return membership_.Shards();
}

uint64_t ClusterRegistry::topology_version() const {
  const absl::MutexLock lock(&mu_);
  return membership_.topology_version();
}

ClusterStatus ClusterRegistry::Status() const {
  const absl::MutexLock lock(&mu_);
  ClusterStatus status{.topology_version = membership_.topology_version(),
                       .expected_shards = expected_shards_,
                       .shards = membership_.Shards(),
                       .restore_count = restore_count_};
  for (const ModelSpec& spec : catalog_.List()) status.models.push_back(spec.name);
  return status;
}

// --- Models
// ----------------------------------------------------------------------------------------

absl::StatusOr<bool> ClusterRegistry::CheckModel(const ModelSpec& spec) const {
  const absl::MutexLock lock(&mu_);
  return catalog_.Check(spec);
}

absl::Status ClusterRegistry::FindModel(const std::string& name) const {
  const absl::MutexLock lock(&mu_);
  return catalog_.Find(name) == nullptr ? UnknownModel(name) : absl::OkStatus();
}

std::vector<ModelSpec> ClusterRegistry::ListModels() const {
  const absl::MutexLock lock(&mu_);
  return catalog_.List();
}

absl::Status ClusterRegistry::AddModel(const ModelSpec& spec) {
  const absl::MutexLock lock(&mu_);
  ASSIGN_OR_RETURN(const bool is_new, catalog_.Check(spec));
  return is_new ? PutModelLocked(spec) : absl::OkStatus();
}

absl::StatusOr<ModelSpec> ClusterRegistry::GrownModel(const std::string& name,
                                                      const Growth& growth) const {
  const absl::MutexLock lock(&mu_);
  return catalog_.Grown(name, growth);
}

absl::StatusOr<ModelSpec> ClusterRegistry::RetiredModel(const RetirementRequest& request) const {
  const absl::MutexLock lock(&mu_);
  return catalog_.WithRetiredLabels(request.model, request.labels, request.restore);
}

absl::Status ClusterRegistry::PutChangedModel(const ModelSpec& spec, const ClusterMap& map) {
  const absl::MutexLock lock(&mu_);
  RETURN_IF_ERROR(PutModelLocked(spec));
  for (const ShardInfo& shard : map.shards) returned_[shard.shard] = shard.generation;
  return absl::OkStatus();
}

absl::Status ClusterRegistry::PutModelLocked(const ModelSpec& spec) {
  if (store_ != nullptr) RETURN_IF_ERROR(store_->PutModel(spec));
  catalog_.Put(spec);
  return absl::OkStatus();
}

absl::Status ClusterRegistry::RemoveModel(const std::string& name) {
  const absl::MutexLock lock(&mu_);
  return RemoveModelLocked(name);
}

absl::Status ClusterRegistry::RemoveModelLocked(const std::string& name) {
  if (store_ != nullptr) RETURN_IF_ERROR(store_->DeleteModel(name));
  return catalog_.Remove(name);
}

absl::Status ClusterRegistry::ReplaceModels(const std::vector<ModelSpec>& models) {
  const absl::MutexLock lock(&mu_);
  for (const ModelSpec& known : catalog_.List()) {
    const bool stays = std::any_of(models.begin(), models.end(),
                                   [&](const ModelSpec& spec) { return spec.name == known.name; });
    if (!stays) RETURN_IF_ERROR(RemoveModelLocked(known.name));
  }
  for (const ModelSpec& spec : models) {
    const ModelSpec* const known = catalog_.Find(spec.name);
    if (known == nullptr || *known != spec) RETURN_IF_ERROR(PutModelLocked(spec));
  }
  return absl::OkStatus();
}

// --- Shards that have come back
// --------------------------------------------------------------------

bool ClusterRegistry::ReturnedOrStopped() const {
  return stopped_ || ((!returned_.empty() || rollback_requested_) && membership_.Map().ok());
}

bool ClusterRegistry::AwaitReturned() {
  const absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(this, &ClusterRegistry::ReturnedOrStopped));
  return !stopped_;
}

std::map<ShardId, uint64_t> ClusterRegistry::Returned() const {
  const absl::MutexLock lock(&mu_);
  return returned_;
}

void ClusterRegistry::SetSynced(ShardId shard, uint64_t generation) {
  const absl::MutexLock lock(&mu_);
  const auto entry = returned_.find(shard);
  if (entry != returned_.end() && entry->second == generation) returned_.erase(entry);
}

bool ClusterRegistry::SyncedOrStopped() const {
  return stopped_ || rollback_requested_ || returned_.empty();
}

void ClusterRegistry::AwaitSynced(absl::Duration timeout) const {
  const absl::MutexLock lock(&mu_);
  mu_.AwaitWithTimeout(absl::Condition(this, &ClusterRegistry::SyncedOrStopped), timeout);
}

absl::Status ClusterRegistry::CheckNoRowsMissing() const {
  const absl::MutexLock lock(&mu_);
  if (rollback_requested_) {
    return absl::UnavailableError(
        "a shard came back without its rows, and a checkpoint would be of their absence: wait "
        "until the cluster was taken back, or restore a checkpoint");
  }
  if (returned_.empty() || catalog_.empty()) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("shard ", returned_.begin()->first.value(),
                   " came back and does not have all models yet, and a checkpoint would be without "
                   "them: ask again; the coordinator's log says what keeps it"));
}

// --- Going back to a checkpoint
// --------------------------------------------------------------------

bool ClusterRegistry::rollback_requested() const {
  const absl::MutexLock lock(&mu_);
  return rollback_requested_;
}

absl::Status ClusterRegistry::ClearRollbackRequest() {
  const absl::MutexLock lock(&mu_);
  // Shards without rows let their clients in when the mark is gone.
  RETURN_IF_ERROR(mark_->Clear());
  rollback_requested_ = false;
  return absl::OkStatus();
}

absl::StatusOr<ClusterMap> ClusterRegistry::BeginRestore() {
  const absl::MutexLock lock(&mu_);
  ASSIGN_OR_RETURN(ClusterMap map, MapLocked());
  restoring_ = true;
  // A shard that registers from here on is not in the map.
  rollback_requested_ = false;
  return map;
}

absl::Status ClusterRegistry::EndRestore(bool done, uint64_t restore_count) {
  const absl::MutexLock lock(&mu_);
  absl::Status marked;
  if (done && rollback_requested_) {
    // A shard has registered without rows meanwhile, and was perhaps not the one that went back.
    marked = mark_->Begin(RestoreMark::kNewest);
  } else if (done) {
    marked = mark_->Clear();
  }
  rollback_requested_ = mark_->checkpoint_id().has_value();
  restoring_ = mark_->begun();
  restore_count_ = restore_count;
  return marked;
}

void ClusterRegistry::SetReturned(const ClusterMap& map) {
  const absl::MutexLock lock(&mu_);
  for (const ShardInfo& shard : map.shards) returned_[shard.shard] = shard.generation;
}

}  // namespace dslide::coordinator
