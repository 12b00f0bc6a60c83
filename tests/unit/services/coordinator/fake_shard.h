// What a shard that only remembers its models knows, and what it answers.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "services/coordinator/membership/shard_admin.h"

namespace dslide::coordinator {

struct FakeShard {
  std::map<std::string, CreateModelCommand> models;
  std::set<std::string> checkpoints;             // "model/checkpoint"
  std::vector<std::string> best_kept;            // as the last one was written
  absl::Status failure;                          // what every call answers, if not OK
  std::function<absl::Duration()> freeze_delay;  // null: always a good moment
  std::vector<ClientStep> changed;               // what a freeze finds
  std::function<std::vector<ClientStep>(const std::vector<ClientStep>&,
                                        const std::vector<ClientId>&)>
      incomplete;  // after an admission; null: nothing
  absl::Status create_failure, cut_failure, rollback_failure;
  int aborts_lost = 0;  // so many of the next do not arrive
  std::vector<uint64_t> aborted;
  uint64_t frozen = 0;
  absl::Duration stall;
  int creates = 0, admissions = 0;
  std::vector<ClientId> closed;
  std::map<uint64_t, PartProgress> cuts;
  std::map<uint64_t, PartBase> bases;  // that were named, by checkpoint_id
  bool writes_all_rows = false;
  std::function<void(PartProgress&)> on_progress;  // spoils or watches an answer; null: neither
  std::function<void()> on_rollback;
  std::vector<uint64_t> rolled_back;
  int64_t largest_head = 0;  // rows, over all models it was ever asked to create
};

}  // namespace dslide::coordinator
