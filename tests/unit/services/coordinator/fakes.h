// Stand-ins for what the coordinator depends on.

#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "core/base/clock.h"
#include "core/model/model_spec.h"
#include "services/coordinator/membership.h"
#include "services/coordinator/shard_admin.h"

namespace dslide::coordinator {

// Time that moves when it is told to.
class FakeClock final : public Clock {
 public:
  absl::Duration Now() const override {
    const absl::MutexLock lock(&mu_);
    return now_;
  }
  void Advance(absl::Duration by) {
    const absl::MutexLock lock(&mu_);
    now_ += by;
  }

 private:
  mutable absl::Mutex mu_;
  absl::Duration now_ ABSL_GUARDED_BY(mu_) = absl::Seconds(1000);
};

// A small valid model.
inline ModelSpec TestModel(const std::string& name, int64_t labels = 100) {
  ModelSpec spec;
  spec.name = name;
  TableSpec embedding;
  embedding.name = "input";
  embedding.role = TableRole::kEmbedding;
  embedding.rows = 50;
  embedding.dim = 8;
  embedding.num_slots = 16;
  TableSpec head;
  head.name = "head";
  head.role = TableRole::kHead;
  head.rows = labels;
  head.dim = 8;
  head.num_slots = 32;
  spec.tables = {embedding, head};
  return spec;
}

// 16 bytes that start with the number.
inline std::string Instance(char number) {
  std::string id(16, '\0');
  id[0] = number;
  return id;
}

inline ShardRegistration Registration(char instance, const std::string& address,
                                      std::optional<int> wanted = std::nullopt,
                                      double weight = 1.0) {
  ShardRegistration registration{.wanted = std::nullopt,
                                 .address = address,
                                 .capacity_weight = weight,
                                 .instance_id = Instance(instance)};
  if (wanted.has_value()) registration.wanted = ShardId(*wanted);
  return registration;
}

// Shards by address that only remember which models they have.
class FakeShards final : public ShardAdmin {
 public:
  struct Shard {
    std::map<std::string, CreateModelCommand> models;
    std::set<std::string> checkpoints;  // "model/checkpoint"
    absl::Status failure;               // what every call answers, if not OK
    int creates = 0;
    int64_t largest_head = 0;  // rows, over all models it was ever asked to create
  };

  absl::StatusOr<bool> CreateModel(const std::string& address, const CreateModelCommand& command,
                                   absl::Duration) override {
    const absl::MutexLock lock(&mu_);
    Shard& shard = shards_[address];
    ++shard.creates;
    for (const TableSpec& table : command.spec.tables) {
      if (table.role == TableRole::kHead) {
        shard.largest_head = std::max(shard.largest_head, table.rows);
      }
    }
    if (!shard.failure.ok()) return shard.failure;
    return shard.models.try_emplace(command.spec.name, command).second;
  }
  absl::Status DropModel(const std::string& address, const std::string& model,
                         absl::Duration) override {
    const absl::MutexLock lock(&mu_);
    Shard& shard = shards_[address];
    if (!shard.failure.ok()) return shard.failure;
    return shard.models.erase(model) > 0 ? absl::OkStatus() : absl::NotFoundError("no model");
  }
  absl::StatusOr<CheckpointSize> WriteCheckpoint(const std::string& address,
                                                 const std::string& model,
                                                 const std::string& checkpoint,
                                                 absl::Duration) override {
    const absl::MutexLock lock(&mu_);
    Shard& shard = shards_[address];
    if (!shard.failure.ok()) return shard.failure;
    shard.checkpoints.insert(absl::StrCat(model, "/", checkpoint));
    return CheckpointSize{10, 1000};
  }
  absl::StatusOr<int64_t> LoadCheckpoint(const std::string& address, const std::string& model,
                                         const std::string& checkpoint, absl::Duration) override {
    const absl::MutexLock lock(&mu_);
    Shard& shard = shards_[address];
    if (!shard.failure.ok()) return shard.failure;
    if (!shard.checkpoints.contains(absl::StrCat(model, "/", checkpoint))) {
      return absl::NotFoundError("no checkpoint");
    }
    return 10;
  }
  void Stop() override {}

  // Reads or changes a shard while no call runs.
  template <typename Use>
  auto With(const std::string& address, const Use& use) {
    const absl::MutexLock lock(&mu_);
    return use(shards_[address]);
  }
  // Waits until the shard has the model.
  bool AwaitModel(const std::string& address, const std::string& model) {
    const auto has = [&] { return shards_[address].models.contains(model); };
    const absl::MutexLock lock(&mu_);
    return mu_.AwaitWithTimeout(absl::Condition(&has), absl::Seconds(10));
  }

 private:
  absl::Mutex mu_;
  std::map<std::string, Shard> shards_ ABSL_GUARDED_BY(mu_);
};

}  // namespace dslide::coordinator
