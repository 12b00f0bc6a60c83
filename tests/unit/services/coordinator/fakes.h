// Stand-ins for what the coordinator depends on.

#pragma once

#include <optional>
#include <string>

#include "absl/synchronization/mutex.h"
#include "core/base/clock.h"
#include "core/spec/model_spec.h"
#include "services/coordinator/membership/membership.h"

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
                                 .instance_id = Instance(instance),
                                 .admin_address = ""};
  if (wanted.has_value()) registration.wanted = ShardId(*wanted);
  return registration;
}

}  // namespace dslide::coordinator
