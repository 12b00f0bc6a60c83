#include "services/coordinator/membership/membership.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/partition/slot_map.h"
#include "core/protocol/coordinator_reason_words.h"
#include "core/protocol/reason_words.h"
#include "core/system/log.h"

namespace dslide::coordinator {
namespace {

constexpr size_t kInstanceIdBytes = 16;
constexpr size_t kMaxAddressBytes = 512;
constexpr size_t kMaxFenced = 4096;
constexpr uint64_t kMaxGeneration = uint64_t{1} << 62;

absl::Status Refuse(absl::string_view reason, absl::string_view message) {
  return StatusWithReason(absl::StatusCode::kFailedPrecondition, reason, message);
}

absl::Status Invalid(absl::string_view message) {
  return StatusWithReason(absl::StatusCode::kInvalidArgument, reason::kBadRegistration, message);
}

}  // namespace

Membership::Membership(MembershipOptions options, const Clock* clock)
    : options_(options), clock_(clock) {}

absl::Status Membership::CheckRegistration(const ShardRegistration& request) const {
  if (request.wanted.has_value() &&
      (request.wanted->value() < 0 || request.wanted->value() >= options_.expected_shards)) {
    return Invalid(absl::StrCat("shard id ", request.wanted->value(), " is outside [0, ",
                                options_.expected_shards,
                                "), the number of shards the coordinator was started with"));
  }
  if (request.address.empty() || request.address.size() > kMaxAddressBytes) {
    return Invalid(absl::StrCat("the shard's address \"", EscapeForLog(request.address, 80),
                                "\" must have 1 to ", kMaxAddressBytes, " bytes"));
  }
  if (request.admin_address.size() > kMaxAddressBytes) {
    return Invalid(absl::StrCat("the shard's admin address has ", request.admin_address.size(),
                                " bytes; it may have ", kMaxAddressBytes));
  }
  if (!std::isfinite(request.capacity_weight) || request.capacity_weight <= 0.0) {
    return Invalid(absl::StrCat("capacity weight ", request.capacity_weight,
                                " must be a finite number above 0"));
  }
  if (request.instance_id.size() != kInstanceIdBytes) {
    return Invalid(absl::StrCat("the instance id has ", request.instance_id.size(),
                                " bytes; it must be ", kInstanceIdBytes, " random ones"));
  }
  if (std::find(fenced_.begin(), fenced_.end(), request.instance_id) != fenced_.end()) {
    return Refuse(reason::kFenced,
                  absl::StrCat("the shard process at ", request.address,
                               " was replaced or has left; only a new process may take "
                               "an ordinal"));
  }
  return absl::OkStatus();
}

absl::StatusOr<ShardId> Membership::ChooseOrdinal(const ShardRegistration& request) const {
  for (const auto& [id, shard] : shards_) {
    if (shard.address != request.address || shard.instance_id == request.instance_id) continue;
    if (!request.wanted.has_value()) return id;  // restarted in its old place
    if (*request.wanted != id && HealthOf(shard) == ShardHealth::kAlive) {
      return Refuse(
          reason::kAddressInUse,
          absl::StrCat("shard ", id.value(), " lives at ", request.address, " already; give shard ",
                       request.wanted->value(), " an address of its own"));
    }
  }
  if (request.wanted.has_value()) return *request.wanted;
  std::optional<ShardId> left;
  std::optional<ShardId> lost;
  for (int64_t i = 0; i < options_.expected_shards; ++i) {
    const ShardId id(static_cast<int32_t>(i));
    const auto shard = shards_.find(id);
    if (shard == shards_.end()) return id;
    const ShardHealth health = HealthOf(shard->second);
    if (health == ShardHealth::kLeft && !left.has_value()) left = id;
    if (health == ShardHealth::kLost && !lost.has_value()) lost = id;
  }
  if (left.has_value()) return *left;
  if (lost.has_value()) return *lost;
  return Refuse(
      reason::kClusterFull,
      absl::StrCat("all ", options_.expected_shards,
                   " shards the coordinator expects are there; start the coordinator with "
                   "a larger --shards, or this shard with the id it replaces"));
}

absl::StatusOr<Ownership> Membership::Register(const ShardRegistration& request,
                                               bool models_exist) {
  RETURN_IF_ERROR(CheckRegistration(request));
  for (auto& [id, shard] : shards_) {
    if (shard.instance_id != request.instance_id) continue;
    if (request.wanted.has_value() && *request.wanted != id) {
      return Invalid(absl::StrCat("this process owns shard ", id.value(),
                                  "; it cannot also become shard ", request.wanted->value()));
    }
    shard.last_heartbeat = clock_->Now();
    shard.admin_address = request.admin_address;
    return Ownership{id, shard.generation, false};
  }
  ASSIGN_OR_RETURN(const ShardId id, ChooseOrdinal(request));
  const auto index = static_cast<size_t>(id.value());
  if (models_exist && index < dealt_weights_.size() &&
      dealt_weights_[index] != request.capacity_weight) {
    return Refuse(
        reason::kWeightChanged,
        absl::StrCat("shard ", id.value(), " comes with capacity weight ", request.capacity_weight,
                     " but its slots were dealt by ", dealt_weights_[index],
                     "; models exist, so start it with the old weight"));
  }
  Shard& shard = shards_[id];
  if (!shard.instance_id.empty()) Fence(shard.instance_id);
  const uint64_t floor = std::max(shard.generation, generation_floor_[id]);
  shard = {.address = request.address,
           .capacity_weight = request.capacity_weight,
           .generation = floor + 1,
           .instance_id = request.instance_id,
           .admin_address = request.admin_address,
           .last_heartbeat = clock_->Now()};
  Deal();
  return Ownership{id, shard.generation, true};
}

void Membership::Fence(const std::string& instance_id) {
  fenced_.push_back(instance_id);
  if (fenced_.size() > kMaxFenced) fenced_.pop_front();
}

void Membership::Deal() {
  if (static_cast<int64_t>(shards_.size()) < options_.expected_shards) return;
  std::vector<double> weights;
  for (const auto& [id, shard] : shards_) weights.push_back(shard.capacity_weight);
  if (weights == dealt_weights_) return;
  dealt_weights_ = std::move(weights);
  ++topology_version_;
}

absl::StatusOr<Membership::Shard*> Membership::Owner(ShardId id, uint64_t generation) {
  if (id.value() < 0 || id.value() >= options_.expected_shards || generation == 0 ||
      generation > kMaxGeneration) {
    return Invalid(absl::StrCat("no shard ", id.value(), " of generation ", generation,
                                " can exist in a cluster of ", options_.expected_shards));
  }
  const auto found = shards_.find(id);
  const uint64_t current = found == shards_.end() ? 0 : found->second.generation;
  if (generation > current) {
    // Given by an earlier coordinator whose memory is lost; clients remember it, so ours go above.
    uint64_t& floor = generation_floor_[id];
    floor = std::max(floor, generation);
    return StatusWithReason(absl::StatusCode::kNotFound, reason::kUnknownShard,
                            absl::StrCat("generation ", generation, " of shard ", id.value(),
                                         " is unknown here; register again"));
  }
  if (generation < current) {
    return Refuse(reason::kFenced,
                  absl::StrCat("shard ", id.value(), " is owned by generation ", current, " at ",
                               found->second.address, "; generation ", generation, " must stop"));
  }
  return &found->second;
}

absl::Status Membership::Heartbeat(ShardId id, uint64_t generation, int64_t memory_bytes,
                                   int64_t applied_commands) {
  ASSIGN_OR_RETURN(Shard* const shard, Owner(id, generation));
  if (shard->left) {
    return Refuse(reason::kFenced, absl::StrCat("shard ", id.value(), " has said good-bye"));
  }
  const absl::Duration now = clock_->Now();
  const double seconds = absl::ToDoubleSeconds(now - shard->last_heartbeat);
  // The first heartbeat of an owner has no earlier count; one that was repeated no time.
  if (shard->heard && seconds > 0.0 && applied_commands >= shard->applied_commands) {
    shard->commands_per_second =
        static_cast<double>(applied_commands - shard->applied_commands) / seconds;
  }
  shard->heard = true;
  shard->last_heartbeat = now;
  shard->memory_bytes = memory_bytes;
  shard->applied_commands = applied_commands;
  return absl::OkStatus();
}

absl::Status Membership::Deregister(ShardId id, uint64_t generation) {
  ASSIGN_OR_RETURN(Shard* const shard, Owner(id, generation));
  if (shard->left) return absl::OkStatus();
  shard->left = true;
  Fence(shard->instance_id);
  return absl::OkStatus();
}

ShardHealth Membership::HealthOf(const Shard& shard) const {
  if (shard.left) return ShardHealth::kLeft;
  const absl::Duration silent = clock_->Now() - shard.last_heartbeat;
  return silent <= options_.heartbeat_interval * options_.missing_heartbeats ? ShardHealth::kAlive
                                                                             : ShardHealth::kLost;
}

ShardInfo Membership::ViewOf(ShardId id, const Shard& shard) const {
  return {.shard = id,
          .address = shard.address,
          .capacity_weight = shard.capacity_weight,
          .generation = shard.generation,
          .health = HealthOf(shard),
          .memory_bytes = shard.memory_bytes,
          .applied_commands = shard.applied_commands,
          .admin_address = shard.admin_address,
          .commands_per_second = shard.commands_per_second};
}

std::vector<ShardInfo> Membership::Shards() const {
  std::vector<ShardInfo> views;
  for (const auto& [id, shard] : shards_) views.push_back(ViewOf(id, shard));
  return views;
}

absl::StatusOr<ClusterMap> Membership::Map() const {
  std::vector<int32_t> missing;
  for (int32_t i = 0; i < options_.expected_shards; ++i) {
    const auto shard = shards_.find(ShardId(i));
    if (shard == shards_.end() || shard->second.left) missing.push_back(i);
  }
  if (!missing.empty()) {
    const size_t count = missing.size();
    if (count > 8) missing.resize(8);
    return StatusWithReason(
        absl::StatusCode::kUnavailable, reason::kNotAllShards,
        absl::StrCat("waiting for ", count, " of ", options_.expected_shards,
                     " shards to register (missing: ", absl::StrJoin(missing, ", "),
                     count > missing.size() ? ", ..." : "",
                     "): start each of them, dslide-shard --coordinator with the address of this "
                     "coordinator, or the coordinator with a smaller --shards"));
  }
  return ClusterMap{.topology_version = topology_version_, .shards = Shards()};
}

MembershipRecord Membership::Record() const {
  MembershipRecord record{.expected_shards = options_.expected_shards,
                          .topology_version = topology_version_,
                          .dealt_weights = dealt_weights_,
                          .shards = {}};
  for (const auto& [id, shard] : shards_) {
    record.shards.push_back({id.value(), shard.address, shard.capacity_weight, shard.generation,
                             shard.instance_id, shard.left, shard.admin_address});
  }
  return record;
}

absl::Status Membership::Restore(const MembershipRecord& record, bool models_exist) {
  if (record.expected_shards != options_.expected_shards && models_exist) {
    return Refuse(reason::kShardsChanged,
                  absl::StrCat("the data directory is of a cluster of ", record.expected_shards,
                               " shards with models, but --shards is ", options_.expected_shards,
                               "; start it with the old number"));
  }
  topology_version_ = record.topology_version;
  const bool same = record.expected_shards == options_.expected_shards;
  if (same) dealt_weights_ = record.dealt_weights;
  for (const MembershipRecord::Shard& shard : record.shards) {
    const ShardId id(shard.shard);
    generation_floor_[id] = shard.generation;
    if (!same) continue;  // another cluster size is a new cluster; its generations go on
    shards_[id] = {.address = shard.address,
                   .capacity_weight = shard.capacity_weight,
                   .generation = shard.generation,
                   .instance_id = shard.instance_id,
                   .admin_address = shard.admin_address,
                   .left = shard.left,
                   .last_heartbeat = clock_->Now()};
    if (shard.left) Fence(shard.instance_id);
  }
  return absl::OkStatus();
}

}  // namespace dslide::coordinator
