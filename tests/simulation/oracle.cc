#include "tests/simulation/oracle.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/wire/steps/reply_bytes.h"
#include "services/shard/durability/durable_state.h"
#include "services/shard/state/core_state.h"
#include "services/shard/storage/hash_image.h"

namespace dslide::simulation {
namespace {

std::string Name(const Update& update) {
  return absl::StrCat("update ", update.sequence, " of client ", shard::ShortName(update.client),
                      " on shard ", update.where.shard);
}

// The cell in a part of a checkpoint.
float ValueIn(const MemoryImage& image, const Cell& cell) {
  if (image.models.empty()) return 0;
  const std::string& record = image.models[0].tables[0].records[cell.local.value()];
  float value = 0;
  std::memcpy(&value, record.data() + sizeof(float) * static_cast<size_t>(cell.column),
              sizeof(value));
  return value;
}

// What the hash tables are made of. They are small, and so built at once: always settled.
std::string HashesIn(const shard::ShardCore& core) {
  std::string hashes;
  for (const auto& [name, model] : core.models()) {
    hashes += shard::EncodeHashes(shard::HashesOf(*model));
  }
  return hashes;
}

}  // namespace

Oracle::Oracle(shard::Durability mode, int shards, Trace& trace) : mode_(mode), trace_(trace) {
  for (int shard = 0; shard < shards; ++shard) {
    shards_.emplace_back().twin = std::make_unique<shard::ShardCore>(shard::ShardCoreOptions());
  }
}

float& Oracle::Highest(const Cell& where) {
  return highest_[{where.shard, where.local.value() * kDim + where.column}];
}

Update& Oracle::Send(const Cell& where, const ClientId& client, uint64_t sequence, float floor) {
  Update& update = updates_.emplace_back();
  update.where = where;
  update.client = client;
  update.sequence = sequence;
  update.floor = floor;
  float& highest = Highest(where);
  highest = std::max(highest, floor);
  return update;
}

void Oracle::Acked(Update& update, int64_t life) {
  update.acked = true;
  update.life = life;
  update.unsure = life != shards_[static_cast<size_t>(update.where.shard)].life;
}

void Oracle::Answered(const ClientId& client, uint64_t sequence, int shard, int64_t life,
                      const Reply& reply) {
  std::string bytes = wire::EncodeReply(reply);
  const auto [first, is_new] = answers_.try_emplace({client, sequence, shard, life}, bytes);
  if (is_new || first->second == bytes) return;
  trace_.Violation(absl::StrCat("sequence ", sequence, " of client ", shard::ShortName(client),
                                " got two answers from shard ", shard));
}

void Oracle::GivesUp(const ClientId& client, int shard) {
  gone_.insert(client);
  for (Update& update : updates_) {
    if (update.client == client && update.where.shard == shard) update.told = true;
  }
}

void Oracle::Told(const ClientId& client, int shard, Telling what) {
  GivesUp(client, shard);
  const bool retired = !what.has_value();
  const auto& now = shards_[static_cast<size_t>(shard)];
  // Who told it may have been replaced while the answer was on its way.
  if (what == now.life && committed_ && now.empty) {
    trace_.Violation(absl::StrCat("shard ", shard, " has told client ", shard::ShortName(client),
                                  " of a loss, and had not gone back to the checkpoint yet"));
  }
  if (went_back_) return;
  if (retired ? evicted_.contains(client) : now.life > 0) return;
  trace_.Violation(absl::StrCat("shard ", shard, " has told client ", shard::ShortName(client),
                                retired ? " that it was retired" : " of a loss",
                                ", and there was no reason"));
}

void Oracle::Read(const Cell& where, float value, int64_t life) {
  if (life != shards_[static_cast<size_t>(where.shard)].life) return;
  for (Update& update : updates_) {
    const Cell& own = update.where;
    if (own.shard != where.shard || own.local != where.local || own.column != where.column)
      continue;
    if (value >= update.floor) update.seen = true;
  }
}

void Oracle::Appended(int shard, const shard::LogRecord& record) {
  uint32_t checksum = 0;
  const std::string frame =
      shard::EncodeLogFrame(record.lsn, record.previous, record.kind, {record.payload}, &checksum);
  Shard& own = shards_[static_cast<size_t>(shard)];
  if (own.records.empty()) own.first = record.lsn;
  own.records.push_back(absl::StrCat(frame, record.payload));
}

void Oracle::CompareWithTwin(int shard, uint64_t last, const shard::ShardCore& core) {
  Shard& own = shards_[static_cast<size_t>(shard)];
  for (; !own.records.empty() && own.first <= last; ++own.first, own.records.pop_front()) {
    const auto record = shard::DecodeLogRecord(own.records.front());
    const absl::Status replayed = shard::ReplayRecord(*record, *own.twin);
    if (!replayed.ok()) trace_.Violation(absl::StrCat("a twin: ", replayed.ToString()));
  }
  const uint64_t digest = core.Digest();
  trace_.Note("state", {shard, static_cast<int64_t>(last), static_cast<int64_t>(digest)});
  if (digest != own.twin->Digest()) {
    trace_.Violation(absl::StrCat("the rows of shard ", shard, " after record ", last,
                                  " are not those of a shard that never stopped"));
  } else if (HashesIn(core) != HashesIn(*own.twin)) {
    trace_.Violation(absl::StrCat("the hash tables of shard ", shard, " after record ", last,
                                  " are not those of a shard that never stopped"));
  } else if (shard::EncodeCoreState(core) != shard::EncodeCoreState(*own.twin)) {
    trace_.Violation(absl::StrCat("shard ", shard, " after record ", last,
                                  " remembers its clients otherwise than one that never stopped"));
  }
}

void Oracle::Recovered(int shard, uint64_t last, bool power, const shard::ShardCore& core) {
  Shard& own = shards_[static_cast<size_t>(shard)];
  // Records that the disk has lost.
  while (!own.records.empty() && own.first + own.records.size() - 1 > last) {
    own.records.pop_back();
  }
  const bool may_lose = power && mode_ == shard::Durability::kLogPeriodic;
  Judge(shard, may_lose ? Loss::kUnsynced : Loss::kNothing, &core);
  if (may_lose) {
    ++own.life;
    for (Update& update : updates_) {
      if (update.where.shard != shard || Layout::ValueIn(core, update.where) >= update.floor)
        continue;
      update.cut_off = true;
      update.kept = false;
    }
  }
  CompareWithTwin(shard, last, core);
}

void Oracle::CameBackEmpty(int shard) {
  Judge(shard, Loss::kEverything, nullptr);
  ++shards_[static_cast<size_t>(shard)].life;
  shards_[static_cast<size_t>(shard)].empty = true;
}

void Oracle::WentBack(int shard, const MemoryImage& part, const shard::ShardCore& core) {
  went_back_ = true;
  shards_[static_cast<size_t>(shard)].empty = false;
  Judge(shard, Loss::kEverything, &core);
  for (Update& update : updates_) {
    if (update.where.shard != shard || !update.kept) continue;
    // It was gone with the process, and is there again.
    update.lost = false;
    if (Layout::ValueIn(core, update.where) >= update.floor) continue;
    update.lost = true;
    trace_.Violation(absl::StrCat(Name(update), " was in a checkpoint and is lost"));
  }
  ++shards_[static_cast<size_t>(shard)].life;
  for (const auto& [name, model] : core.models()) {
    for (size_t t = 0; t < model->tables().size(); ++t) {
      const uint64_t digest = model->tables()[t].stored().Digest(model->parallelism());
      if (!part.models.empty() && digest == part.models[0].tables[t].digest) continue;
      trace_.Violation(
          absl::StrCat("shard ", shard, " went back to rows that are not those of its part"));
    }
    if (part.models.empty() ||
        part.models[0].hashes != shard::EncodeHashes(shard::HashesOf(*model))) {
      trace_.Violation(absl::StrCat("shard ", shard,
                                    " went back to hash tables that are not those of its part"));
    }
  }
}

void Oracle::Forced(int shard, const MemoryImage& image) {
  Shard& own = shards_[static_cast<size_t>(shard)];
  own.twin = std::make_unique<shard::ShardCore>(shard::ShardCoreOptions());
  const absl::Status restored = RestoreImage(image, *own.twin);
  if (!restored.ok()) trace_.Violation(absl::StrCat("a forced image: ", restored.ToString()));
  while (!own.records.empty() && own.first <= image.lsn) {
    own.records.pop_front();
    ++own.first;
  }
}

void Oracle::Judge(int shard, Loss allowed, const shard::ShardCore* core) {
  for (Update& update : updates_) {
    if (update.where.shard != shard || update.lost || update.unsure) continue;
    const float value = core == nullptr ? 0 : Layout::ValueIn(*core, update.where);
    if (value > Highest(update.where)) {
      trace_.Violation(absl::StrCat(Name(update), " was applied twice"));
    }
    const bool counts = update.acked || (update.seen && mode_ == shard::Durability::kLog);
    if (!counts || value >= update.floor) continue;
    update.lost = true;
    if (allowed != Loss::kNothing) continue;
    trace_.Violation(absl::StrCat(Name(update), update.acked ? " was acknowledged" : " was read",
                                  " and is lost"));
  }
}

void Oracle::CheckPart(int shard, const MemoryImage& part) {
  for (Update& update : updates_) {
    if (update.where.shard == shard && ValueIn(part, update.where) >= update.floor) {
      update.kept = !update.cut_off;
    }
  }
  shard::ShardCore core({});
  if (const absl::Status restored = shard::RestoreCoreState(part.core_state, core);
      !restored.ok()) {
    return trace_.Violation(absl::StrCat("a part: ", restored.ToString()));
  }
  for (const Update& update : updates_) {
    if (update.where.shard != shard) continue;
    const auto client = core.clients().clients().find(update.client);
    if (client == core.clients().clients().end()) continue;
    const bool remembered = update.sequence < client->second.next;
    const bool there = ValueIn(part, update.where) >= update.floor;
    if (remembered == there) continue;
    trace_.Violation(
        absl::StrCat("in a part, ", Name(update),
                     there ? " is there and not remembered" : " is remembered and not there"));
  }
}

void Oracle::CheckCut(const coordinator::Manifest& manifest,
                      const std::vector<const MemoryImage*>& parts) {
  std::map<ClientId, int64_t> steps;
  for (const ClientStep& step : manifest.steps) steps[step.client] = step.step;
  for (const auto& [client, rows] : tracers_) {
    if (evicted_.contains(client) || gone_.contains(client)) continue;
    for (size_t shard = 0; shard < parts.size(); ++shard) {
      for (int64_t column = 0; column < kDim; ++column) {
        Cell cell = rows[shard];
        cell.column = column;
        const float value = ValueIn(*parts[shard], cell);
        // A client of before a restore is not followed any more; it counts what it did then.
        const auto known = steps.find(client);
        const float wanted =
            known == steps.end() ? ValueIn(*parts[0], rows[0]) : static_cast<float>(known->second);
        if (value == wanted) continue;
        trace_.Violation(absl::StrCat("checkpoint ", manifest.checkpoint_id, " shows ", value,
                                      " steps of client ", shard::ShortName(client), " on shard ",
                                      shard, ", and not ", wanted));
        break;
      }
    }
  }
}

void Oracle::Committed(const coordinator::Manifest& manifest,
                       const std::vector<const MemoryImage*>& parts) {
  for (size_t shard = 0; shard < parts.size(); ++shard) {
    if (parts[shard] == nullptr ||
        parts[shard]->Checksum() != manifest.parts[shard].files_checksum) {
      return trace_.Violation(absl::StrCat("checkpoint ", manifest.checkpoint_id,
                                           " was committed without the part of shard ", shard));
    }
    CheckPart(static_cast<int>(shard), *parts[shard]);
  }
  committed_ = true;
  CheckCut(manifest, parts);
}

void Oracle::NewJob(const coordinator::JobRecord& record, int64_t chunks_done, uint64_t restores) {
  job_restores_ = restores;
  counted_.clear();
  for (const coordinator::JobRecord::Range& range : record.done) {
    for (int64_t i = 0; i < range.count; ++i) counted_.insert({record.epoch, range.first + i});
  }
  for (int64_t epoch = 0; epoch < record.epoch; ++epoch) {
    for (int64_t chunk = 0; chunk < record.spec.NumChunks(); ++chunk)
      counted_.insert({epoch, chunk});
  }
  counted_at_start_ = static_cast<int64_t>(counted_.size());
  counts_at_start_ = chunks_done;
}

void Oracle::Resumed(const coordinator::JobRecord* record, uint64_t restores, bool restoring) {
  const std::set<std::pair<int64_t, int64_t>> before = std::move(counted_);
  const bool same = !restoring && restores == job_restores_;
  NewJob(record == nullptr ? coordinator::JobRecord() : *record, /*chunks_done=*/0, restores);
  for (const auto& [epoch, chunk] : before) {
    if (!same || counted_.contains({epoch, chunk})) continue;
    trace_.Violation(absl::StrCat("chunk ", chunk, " of epoch ", epoch,
                                  " has counted, and the coordinator has forgotten it"));
  }
}

void Oracle::Counted(const coordinator::JobRecord& record, int64_t chunks_done) {
  const auto count = [&](int64_t epoch, int64_t chunk) {
    if (!counted_.insert({epoch, chunk}).second || trained_.contains({epoch, chunk})) return;
    trace_.Violation(absl::StrCat("chunk ", chunk, " of epoch ", epoch, " counts, and nobody has ",
                                  "trained it"));
  };
  for (int64_t chunk = 0; record.epoch > 0 && chunk < record.spec.NumChunks(); ++chunk) {
    count(record.epoch - 1, chunk);
  }
  for (const coordinator::JobRecord::Range& range : record.done) {
    for (int64_t i = 0; i < range.count; ++i) count(record.epoch, range.first + i);
  }
  const int64_t counts = chunks_done - counts_at_start_;
  if (counts == static_cast<int64_t>(counted_.size()) - counted_at_start_) return;
  trace_.Violation(absl::StrCat(counts, " chunks were counted, which are ",
                                static_cast<int64_t>(counted_.size()) - counted_at_start_));
}

void Oracle::CheckAtEnd(const Update& update, float value) {
  if (value > Highest(update.where)) {
    trace_.Violation(absl::StrCat(Name(update), " was applied twice"));
  }
  if (update.kept && value < update.floor) {
    trace_.Violation(absl::StrCat(Name(update), " was in a checkpoint and is not there"));
  }
  if (!update.acked || value >= update.floor) return;
  if (!update.lost && !update.unsure) {
    trace_.Violation(absl::StrCat(Name(update), " was acknowledged and is not there"));
  } else if (!update.told && !dead_.contains(update.client)) {
    trace_.Violation(absl::StrCat(Name(update), " is lost, and its client was not told"));
  }
}

void Oracle::Finish(const std::vector<const shard::ShardCore*>& cores) {
  for (const Update& update : updates_) {
    const auto shard = static_cast<size_t>(update.where.shard);
    CheckAtEnd(update, Layout::ValueIn(*cores[shard], update.where));
  }
  int64_t acked = 0;
  for (const Update& update : updates_) acked += update.acked ? 1 : 0;
  trace_.Note("updates", {updates(), acked});
}

}  // namespace dslide::simulation
