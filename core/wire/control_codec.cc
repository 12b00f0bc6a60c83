#include "core/wire/control_codec.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"
#include "core/wire/arrays/array_codec.h"
#include "core/wire/envelope_codec.h"
#include "core/wire/model_spec_codec.h"
#include "core/wire/row_codec.h"

namespace dslide::wire {
namespace {

const SlotMap* FindMap(const std::vector<SlotMap>& maps, int64_t num_slots) {
  const auto found = std::find_if(maps.begin(), maps.end(),
                                  [&](const SlotMap& map) { return map.num_slots() == num_slots; });
  return found == maps.end() ? nullptr : &*found;
}

// One map for each num_slots in use, and no other.
absl::Status CheckMaps(const CreateModelCommand& command) {
  for (const TableSpec& table : command.spec.tables) {
    if (FindMap(command.slot_maps, table.num_slots) == nullptr) {
      return Refusal(reason::kMissingField, "slots",
                     absl::StrCat("has no assignment of ", table.num_slots,
                                  " slots, which table \"", table.name, "\" uses"));
    }
  }
  for (const SlotMap& map : command.slot_maps) {
    const bool used =
        std::any_of(command.spec.tables.begin(), command.spec.tables.end(),
                    [&](const TableSpec& table) { return table.num_slots == map.num_slots(); });
    if (!used || FindMap(command.slot_maps, map.num_slots()) != &map) {
      return Refusal(
          reason::kOutOfRange, "slots",
          absl::StrCat("assigns ", map.num_slots(), " slots twice, or no table uses so many"));
    }
    if (command.shard.value() < 0 || command.shard.value() >= map.num_shards()) {
      return Refusal(reason::kOutOfRange, "shard_id",
                     absl::StrCat("is ", command.shard.value(), ", the slots are dealt to ",
                                  map.num_shards(), " shards"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SlotMap> DecodeSlotMap(const v1::SlotAssignment& assignment) {
  const int64_t num_slots = assignment.num_slots();
  if (num_slots < 1 || num_slots > kMaxNumSlots) {
    return Refusal(reason::kOutOfRange, "slots.num_slots",
                   absl::StrCat("is ", num_slots, ", must be in [1, ", kMaxNumSlots, "]"));
  }
  if (static_cast<int64_t>(assignment.owners().size()) != 2 * num_slots) {
    return Refusal(
        reason::kBadSize, "slots.owners",
        absl::StrCat("has ", assignment.owners().size(), " bytes, must have ", 2 * num_slots));
  }
  std::vector<ShardId> owners;
  owners.reserve(num_slots);
  for (int64_t slot = 0; slot < num_slots; ++slot) {
    uint16_t owner;
    std::memcpy(&owner, assignment.owners().data() + 2 * slot, sizeof(owner));
    owners.emplace_back(owner);
  }
  absl::StatusOr<SlotMap> map = SlotMap::FromOwners(std::move(owners), assignment.num_shards());
  if (!map.ok()) return Refusal(reason::kOutOfRange, "slots:", map.status().message());
  return map;
}

void EncodeSlotMap(const SlotMap& map, v1::SlotAssignment* out) {
  out->set_num_slots(map.num_slots());
  out->set_num_shards(static_cast<int32_t>(map.num_shards()));
  std::string* owners = out->mutable_owners();
  owners->clear();
  for (const ShardId shard : map.owners()) {
    const auto owner = static_cast<uint16_t>(shard.value());
    owners->append(reinterpret_cast<const char*>(&owner), sizeof(owner));
  }
}

absl::StatusOr<CreateModelCommand> DecodeCreateModel(const v1::CreateModelRequest& request) {
  CreateModelCommand command;
  ASSIGN_OR_RETURN(command.spec, DecodeModelSpec(request.spec(), /*sizes_known=*/true));
  command.shard = ShardId(request.shard_id());
  command.topology_version = request.topology_version();
  command.grow = request.grow();
  command.dry_run = request.dry_run();
  if (request.slots_size() > kMaxModelTables) {
    return Refusal(
        reason::kOverLimit, "slots",
        absl::StrCat("has ", request.slots_size(), " entries, may have ", kMaxModelTables));
  }
  for (const v1::SlotAssignment& assignment : request.slots()) {
    ASSIGN_OR_RETURN(SlotMap map, DecodeSlotMap(assignment));
    command.slot_maps.push_back(std::move(map));
  }
  RETURN_IF_ERROR(CheckMaps(command));
  return command;
}

void EncodeCreateModel(const CreateModelCommand& command, v1::CreateModelRequest* out) {
  EncodeModelSpec(command.spec, out->mutable_spec());
  out->set_shard_id(command.shard.value());
  out->clear_slots();
  for (const SlotMap& map : command.slot_maps) EncodeSlotMap(map, out->add_slots());
  out->set_topology_version(command.topology_version);
  out->set_grow(command.grow);
  out->set_dry_run(command.dry_run);
}

absl::StatusOr<DropModelCommand> DecodeDropModel(const v1::DropModelRequest& request) {
  RETURN_IF_ERROR(CheckName("model", request.model()));
  return DropModelCommand{.model = request.model()};
}

absl::StatusOr<DescribeModelCommand> DecodeDescribeModel(const v1::DescribeModelRequest& request) {
  RETURN_IF_ERROR(CheckName("model", request.model()));
  return DescribeModelCommand{.model = request.model(), .with_digests = request.with_digests()};
}

void EncodeDescribeModel(const DescribeModelReply& reply, v1::DescribeModelResponse* out) {
  EncodeModelSpec(reply.spec, out->mutable_spec());
  out->clear_tables();
  for (const TableStateReply& table : reply.tables) {
    v1::TableState* state = out->add_tables();
    state->set_name(table.name);
    state->set_shard_rows(table.shard_rows);
    state->set_applied_steps(table.applied_steps);
    state->set_memory_bytes(table.memory_bytes);
    state->set_digest(table.digest);
  }
}

absl::StatusOr<DescribeModelReply> DecodeDescribeModel(const v1::DescribeModelResponse& response) {
  DescribeModelReply reply;
  absl::StatusOr<ModelSpec> spec = DecodeModelSpec(response.spec(), /*sizes_known=*/true);
  if (!spec.ok()) return BadAnswer(spec.status());
  reply.spec = *std::move(spec);
  for (const v1::TableState& state : response.tables()) {
    reply.tables.push_back({.name = state.name(),
                            .shard_rows = state.shard_rows(),
                            .applied_steps = state.applied_steps(),
                            .memory_bytes = state.memory_bytes(),
                            .digest = state.digest()});
  }
  return reply;
}

absl::StatusOr<HelloCommand> DecodeHello(const v1::HelloRequest& request) {
  HelloCommand command;
  RETURN_IF_ERROR(CheckName("job", request.job()));
  command.job = request.job();
  ASSIGN_OR_RETURN(command.client, DecodeClientId("client_id", request.client_id()));
  command.acknowledged_sequence = request.acknowledged_sequence();
  return command;
}

void EncodeHello(const HelloCommand& command, v1::HelloRequest* out) {
  out->set_job(command.job);
  out->set_client_id(EncodeClientId(command.client));
  out->set_acknowledged_sequence(command.acknowledged_sequence);
}

void EncodeHello(const HelloReply& reply, v1::HelloResponse* out) {
  out->set_generation(reply.generation);
  out->set_topology_version(reply.topology_version);
  out->set_next_sequence(reply.next_sequence);
}

HelloReply DecodeHello(const v1::HelloResponse& response) {
  return {.generation = response.generation(),
          .topology_version = response.topology_version(),
          .next_sequence = response.next_sequence()};
}

absl::StatusOr<CloseClientCommand> DecodeCloseClient(const v1::CloseClientRequest& request) {
  CloseClientCommand command;
  RETURN_IF_ERROR(CheckName("job", request.job()));
  command.job = request.job();
  ASSIGN_OR_RETURN(command.client, DecodeClientId("client_id", request.client_id()));
  return command;
}

void EncodeCloseClient(const CloseClientCommand& command, v1::CloseClientRequest* out) {
  out->set_job(command.job);
  out->set_client_id(EncodeClientId(command.client));
}

}  // namespace dslide::wire
