// What the forward operations of a step leave for its backward operations.
//
// A context is keyed by (client, step, table). It goes when its backward has used it, when the
// client's first_open_step passes it, when the client leaves or is given up, or with its model.
// Part of the state machine: deterministic, no clock.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "core/engine/model/embedding_table.h"
#include "core/engine/model/head_table.h"
#include "core/partition/slot_map.h"
#include "core/protocol/commands.h"

namespace dslide::shard {

using ContextData = std::variant<FeatureBatch, HeadContext>;

// Not thread-safe.
class StepContexts {
 public:
  // All contexts together hold at most `budget_bytes`.
  explicit StepContexts(int64_t budget_bytes) : budget_bytes_(budget_bytes) {}

  // Part of the state: a replay needs that of its time.
  void set_budget_bytes(int64_t budget_bytes) { budget_bytes_ = budget_bytes; }

  // Drops the client's contexts of steps below `first_open_step` and refuses such steps from now
  // on. Errors: InvalidArgument STEP_CLOSED when `step` is one of them; nothing changes then.
  absl::Status Advance(const ClientId& client, int64_t step, int64_t first_open_step);

  // Where a context of `bytes` bytes would go, what it would replace not counted. Errors:
  // ResourceExhausted CONTEXTS_FULL; InvalidArgument OVER_LIMIT when it is larger than the budget.
  absl::Status CheckRoom(int64_t bytes) const;

  // Keeps a context; an earlier one of the same step and table is replaced. The caller has checked
  // the room.
  void Put(const ClientId& client, int64_t step, const std::string& model, const std::string& table,
           ContextData data);

  // Valid until the next change. Null when there is none.
  ContextData* Find(const ClientId& client, int64_t step, const std::string& model,
                    const std::string& table);
  // Drops what Find() has found.
  void Erase(const ClientId& client, int64_t step, const std::string& model,
             const std::string& table);

  // An operation of the step has changed rows.
  void Changed(const ClientId& client, int64_t step);

  void DropClient(const ClientId& client);
  void DropModel(const std::string& model);
  // A table has its rows in other places: `from` were its rows, all of which are in `to`.
  void MoveRows(const std::string& model, const std::string& table, const ShardRows& from,
                const ShardRows& to);

  // An empty context, with the memory of a used one where there is one.
  HeadContext TakeSpare();
  void GiveSpare(HeadContext context);

  int64_t bytes() const { return bytes_; }
  int64_t count() const;

  struct Entry {
    std::string model;
    std::string table;
    ContextData data;
    int64_t bytes = 0;
  };
  struct Client {
    int64_t first_open_step = 0;
    int64_t last_kept_step = 0;     // the highest that ever had a context
    int64_t last_changed_step = 0;  // the highest that has changed rows
    std::map<int64_t, std::vector<Entry>> steps;
  };
  const std::map<ClientId, Client>& clients() const { return clients_; }
  // For images of the state: puts back what Advance() and Put() do not.
  void RestoreSteps(const ClientId& client, int64_t last_kept_step, int64_t last_changed_step);

 private:
  Entry* FindEntry(const ClientId& client, int64_t step, const std::string& model,
                   const std::string& table);
  void Release(Entry& entry);

  int64_t budget_bytes_;
  std::map<ClientId, Client> clients_;
  int64_t bytes_ = 0;
  std::vector<HeadContext> spares_;  // not counted: at most kSpares
};

int64_t ContextBytes(const ContextData& data);

}  // namespace dslide::shard
