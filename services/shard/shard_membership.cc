#include "services/shard/shard_membership.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/status_macros.h"
#include "core/system/log.h"
#include "services/common/admin_address.h"

namespace dslide::shard {

ShardMembership::ShardMembership(ShardMembershipParts parts, LoadedRows loaded)
    : parts_(parts), loaded_shard_(loaded.shard) {
  const ShardServerOptions& options = parts_.options;
  const int32_t wanted = options.shard_id >= 0 ? options.shard_id : loaded_shard_;
  if (options.coordinator.empty()) {
    parts_.readiness.Attach(&parts_.runtime, "starting");
    // Nobody mints generations here: the time of the start grows from process to process.
    OnOwned(ShardId(wanted), static_cast<uint64_t>(absl::ToUnixMicros(absl::Now())),
            /*rollback_pending=*/false);
    return;
  }
  parts_.readiness.Attach(&parts_.runtime, "waiting for the coordinator");
  const std::string advertise = AddressForClients();
  link_ = std::make_unique<CoordinatorLink>(
      CoordinatorLinkOptions{
          .coordinator = options.coordinator,
          .advertise = advertise,
          .admin = AdminAddressForOthers(parts_.runtime.admin_address(), advertise),
          .shard_id = wanted,
          .capacity_weight = options.capacity_weight,
          .models = std::move(loaded.models),
          .channels = options.channels ? options.channels
                                       : NetworkServiceChannels(options.server.insecure,
                                                                options.server.tls_store)},
      MakeHooks());
}

void ShardMembership::Stop() {
  if (link_ != nullptr) link_->Stop();
}

std::string ShardMembership::AddressForClients() const {
  return parts_.options.advertise.empty() ? parts_.runtime.address() : parts_.options.advertise;
}

CoordinatorLinkHooks ShardMembership::MakeHooks() {
  CoordinatorLinkHooks hooks;
  hooks.on_owned = [this](ShardId shard, uint64_t generation, bool rollback_pending) {
    OnOwned(shard, generation, rollback_pending);
  };
  hooks.on_rollback_pending = [this](bool rollback_pending) {
    parts_.shard.admission().OnHeartbeat(rollback_pending);
  };
  hooks.on_fenced = [this](const absl::Status& why) { OnFenced(why); };
  hooks.on_refused = [this](const absl::Status& why) {
    parts_.readiness.SetTrouble(why.message());
  };
  hooks.models = [this] { return ModelsHeld(); };
  hooks.memory_bytes = [this] { return parts_.shard.sequencer().table_bytes(); };
  hooks.applied_commands = [this] { return parts_.shard.sequencer().mutations(); };
  hooks.log_failed = [this] { return parts_.shard.broken(); };
  hooks.on_heartbeat = [this](absl::Duration took) { parts_.metrics.RecordHeartbeat(took); };
  return hooks;
}

std::vector<ModelSpec> ShardMembership::ModelsHeld() {
  std::vector<ModelSpec> held;
  const absl::Status asked = parts_.shard.sequencer().RunTask([&](ShardCore& core) {
    for (const auto& [name, model] : core.models()) held.push_back(model->spec());
    return absl::OkStatus();
  });
  if (!asked.ok()) held.clear();  // it is stopping
  return held;
}

void ShardMembership::OnOwned(ShardId shard, uint64_t generation, bool rollback_pending) {
  const absl::Status owned = parts_.shard.sequencer().RunTask([&](ShardCore& core) -> absl::Status {
    if (loaded_shard_ >= 0 && shard.value() >= 0 && shard.value() != loaded_shard_) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the data directory is of shard ", loaded_shard_, ", but the coordinator gave number ",
          shard.value(), ": start it with --shard-id ", loaded_shard_));
    }
    RETURN_IF_ERROR(
        parts_.shard.Own(core, {.shard = shard, .generation = generation}, rollback_pending));
    parts_.service.SetIdentity(shard, generation, core.topology_version());
    return absl::OkStatus();
  });
  if (!owned.ok()) {
    LogError("shard is not ready", {{"error", owned.message()}});
    return parts_.readiness.SetTrouble(owned.message());
  }
  parts_.readiness.SetReady(
      {.shard = shard, .generation = generation, .address = AddressForClients()});
  LogInfo("shard ready", {{"shard", shard.value()},
                          {"generation", generation},
                          {"address", parts_.runtime.address()}});
}

void ShardMembership::OnFenced(const absl::Status& why) {
  parts_.shard.Fence(why);
  LogError("fenced: another process owns this shard", {{"reason", why.message()}});
  parts_.readiness.Fence("replaced by a newer process");
  parts_.service.StopStreams();
  if (parts_.options.on_fenced) parts_.options.on_fenced();
}

}  // namespace dslide::shard
