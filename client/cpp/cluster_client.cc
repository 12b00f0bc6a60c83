#include "client/cpp/cluster_client.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "client/cpp/read_channel.h"
#include "client/cpp/row_slices.h"
#include "client/cpp/scatter_queue.h"
#include "client/cpp/shard_stream.h"
#include "client/cpp/unary_call.h"
#include "client/cpp/wire_counters.h"
#include "core/base/status_macros.h"
#include "core/wire/bulk/bulk_codec.h"

namespace dslide {
namespace {

// Ids of one request: 1 MiB, well inside a message.
constexpr size_t kIdsPerGather = size_t{1} << 18;

// Collects the parts of a fan-out and calls `done` with all of them, or with the first error by
// position, when the last has arrived.
template <typename T>
class FanIn {
 public:
  FanIn(size_t parts, std::function<void(absl::StatusOr<std::vector<T>>)> done)
      : missing_(parts), parts_(parts), errors_(parts), done_(std::move(done)) {}

  void Set(size_t part, absl::StatusOr<T> value) {
    {
      absl::MutexLock lock(&mu_);
      if (value.ok()) {
        parts_[part] = *std::move(value);
      } else {
        errors_[part] = value.status();
      }
      if (--missing_ > 0) return;
    }
    // The last part: nobody else touches the members any more.
    for (const absl::Status& error : errors_) {
      if (!error.ok()) {
        done_(error);
        return;
      }
    }
    done_(std::move(parts_));
  }

 private:
  absl::Mutex mu_;
  size_t missing_ ABSL_GUARDED_BY(mu_);
  std::vector<T> parts_;
  std::vector<absl::Status> errors_;
  const std::function<void(absl::StatusOr<std::vector<T>>)> done_;
};

// Runs an asynchronous call and waits for its answer.
template <typename T, typename Start>
T Await(Start&& start) {
  absl::Notification ready;
  std::unique_ptr<T> result;
  start([&](T value) {
    result = std::make_unique<T>(std::move(value));
    ready.Notify();
  });
  ready.WaitForNotification();
  return std::move(*result);
}

// Rows on their way to where they were wanted. Shared by the callbacks of a gather's parts.
struct Gathering {
  RowBlock block;  // its rows are those wanted
  RowSlices slices;
  std::vector<std::vector<uint32_t>> places;  // first_places of the slices

  // Where a part of a shard's rows goes.
  wire::GatherTarget Target(size_t shard, size_t first, size_t count) {
    return {.rows = absl::MakeConstSpan(slices.rows[shard]).subspan(first, count),
            .dim = block.dim,
            .values = absl::MakeSpan(block.values),
            .biases = absl::MakeSpan(block.biases),
            .places = absl::MakeConstSpan(places[shard]).subspan(first, count)};
  }
};

// A shard that was killed comes back: waits for an answer within one call's time.
template <typename Reply, typename Start>
absl::StatusOr<Reply> AwaitRepeated(const ClientOptions& options, const Start& start) {
  return RepeatUnavailable(options.retry, absl::Now() + options.timeout, /*salt=*/0,
                           [&] { return Await<absl::StatusOr<Reply>>(start); });
}

}  // namespace

uint64_t ModelDescription::digest() const {
  uint64_t sum = 0;
  for (const auto& tables : tables_by_shard) {
    for (const TableStateReply& table : tables) sum += table.digest;
  }
  return sum;
}

struct ClusterClient::Impl {
  ChannelFactory channels;  // kept: it renews the certificates that the channels use
  ClientOptions options;
  WireCounters counters;
  std::unique_ptr<CoordinatorClient> coordinator;
  ClusterMap map;
  std::vector<std::unique_ptr<ShardClient>> shards;
  std::vector<std::unique_ptr<ScatterQueue>> queues;  // destroyed before the shards they use
  absl::Mutex mu;
  absl::flat_hash_map<std::string, ModelSpec> models ABSL_GUARDED_BY(mu);

  absl::StatusOr<ModelSpec> Model(const std::string& name);
  // Shared with calls in flight.
  absl::flat_hash_map<int64_t, std::shared_ptr<const SlotMap>> slots ABSL_GUARDED_BY(mu);

  absl::StatusOr<std::shared_ptr<const SlotMap>> Slots(int64_t num_slots);
  absl::StatusOr<TableSpec> Table(const std::string& model, const std::string& table);
  absl::StatusOr<std::shared_ptr<const SlotMap>> TableSlots(const std::string& model,
                                                            const std::string& table);
  // The query with each shard's candidates.
  absl::StatusOr<std::vector<TopKCommand>> DealCandidates(const TopKCommand& query);
};

absl::StatusOr<std::unique_ptr<ClusterClient>> ClusterClient::Connect(
    const std::string& coordinator, const ChannelFactory& channels, ClientOptions options) {
  auto impl = std::make_unique<Impl>();
  impl->channels = channels;
  ASSIGN_OR_RETURN(std::shared_ptr<grpc::Channel> channel, channels(coordinator));
  impl->coordinator =
      std::make_unique<CoordinatorClient>(channel, coordinator, options, &impl->counters);
  ASSIGN_OR_RETURN(impl->map, impl->coordinator->GetClusterMap());
  const ClientId client = NewClientId();
  for (const ShardInfo& entry : impl->map.shards) {
    ASSIGN_OR_RETURN(std::shared_ptr<grpc::Channel> to_shard, channels(entry.address));
    impl->shards.push_back(std::make_unique<ShardClient>(std::move(to_shard), entry.shard,
                                                         entry.address, options, &impl->counters));
    impl->queues.push_back(std::make_unique<ScatterQueue>(*impl->shards.back(), options, client,
                                                          impl->map.topology_version));
  }
  impl->options = std::move(options);
  return std::unique_ptr<ClusterClient>(new ClusterClient(std::move(impl)));
}

ClusterClient::ClusterClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ClusterClient::~ClusterClient() { impl_->queues.clear(); }

const ClientOptions& ClusterClient::options() const { return impl_->options; }
const ClusterMap& ClusterClient::map() const { return impl_->map; }
int64_t ClusterClient::num_shards() const { return static_cast<int64_t>(impl_->shards.size()); }
CoordinatorClient& ClusterClient::coordinator() { return *impl_->coordinator; }
ShardClient& ClusterClient::shard(ShardId shard) {
  return *impl_->shards[static_cast<size_t>(shard.value())];
}
const WireCounters& ClusterClient::counters() const { return impl_->counters; }

absl::StatusOr<SlotMap> ClusterClient::Slots(int64_t num_slots) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const SlotMap> slots, impl_->Slots(num_slots));
  return *slots;
}

absl::StatusOr<std::shared_ptr<const SlotMap>> ClusterClient::Impl::Slots(int64_t num_slots) {
  {
    const absl::MutexLock lock(&mu);
    const auto known = slots.find(num_slots);
    if (known != slots.end()) return known->second;
  }
  ASSIGN_OR_RETURN(const ClusterMap now, coordinator->GetClusterMap({num_slots}));
  if (now.topology_version != map.topology_version) {
    return absl::FailedPreconditionError(
        absl::StrCat("the cluster's shards changed since this client was made (topology ",
                     map.topology_version, ", now ", now.topology_version, "): connect again"));
  }
  const absl::MutexLock lock(&mu);
  return slots.try_emplace(num_slots, std::make_shared<const SlotMap>(now.slots[0])).first->second;
}

// --- Models -------------------------------------------------------------------------------------

absl::StatusOr<ModelSpec> ClusterClient::Impl::Model(const std::string& name) {
  {
    absl::MutexLock lock(&mu);
    const auto it = models.find(name);
    if (it != models.end()) return it->second;
  }
  ASSIGN_OR_RETURN(const std::vector<ModelSpec> known, coordinator->ListModels());
  std::vector<std::string> names;
  for (const ModelSpec& spec : known) {
    if (spec.name == name) {
      absl::MutexLock lock(&mu);
      models[name] = spec;
      return spec;
    }
    names.push_back(spec.name);
  }
  return absl::NotFoundError(
      absl::StrCat("the cluster has no model \"", name, "\"; ",
                   names.empty() ? "it has none: train one first"
                                 : absl::StrCat("it has: ", absl::StrJoin(names, ", "))));
}

absl::StatusOr<TableSpec> ClusterClient::Impl::Table(const std::string& model,
                                                     const std::string& table) {
  ASSIGN_OR_RETURN(const ModelSpec spec, Model(model));
  const TableSpec* found = spec.FindTable(table);
  if (found == nullptr) {
    std::vector<std::string> names;
    for (const TableSpec& known : spec.tables) names.push_back(known.name);
    return absl::InvalidArgumentError(absl::StrCat("model \"", model, "\" has no table \"", table,
                                                   "\"; it has: ", absl::StrJoin(names, ", ")));
  }
  return *found;
}

absl::StatusOr<std::shared_ptr<const SlotMap>> ClusterClient::Impl::TableSlots(
    const std::string& model, const std::string& table) {
  ASSIGN_OR_RETURN(const TableSpec spec, Table(model, table));
  return Slots(spec.num_slots);
}

absl::StatusOr<std::vector<TopKCommand>> ClusterClient::Impl::DealCandidates(
    const TopKCommand& query) {
  ASSIGN_OR_RETURN(const auto slots, TableSlots(query.model, query.table));
  ASSIGN_OR_RETURN(std::vector<ExplicitRows<RowId>> dealt, SliceExplicit(*slots, query.candidates));
  std::vector<TopKCommand> parts(dealt.size(), query);
  for (size_t s = 0; s < parts.size(); ++s) parts[s].candidates = std::move(dealt[s]);
  return parts;
}

absl::StatusOr<bool> ClusterClient::CreateModel(const ModelSpec& spec) {
  ASSIGN_OR_RETURN(const bool created, impl_->coordinator->RegisterModel(spec));
  absl::MutexLock lock(&impl_->mu);
  impl_->models[spec.name] = spec;
  return created;
}

absl::StatusOr<ModelSpec> ClusterClient::FindModel(const std::string& model) {
  return impl_->Model(model);
}

absl::StatusOr<ModelDescription> ClusterClient::DescribeModel(const std::string& model,
                                                              bool with_digests) {
  ModelDescription description;
  for (const auto& shard : impl_->shards) {
    ASSIGN_OR_RETURN(DescribeModelReply reply, shard->DescribeModel(model, with_digests));
    description.spec = std::move(reply.spec);
    description.tables_by_shard.push_back(std::move(reply.tables));
  }
  return description;
}

absl::Status ClusterClient::DropModel(const std::string& model) {
  {
    absl::MutexLock lock(&impl_->mu);
    impl_->models.erase(model);
  }
  return impl_->coordinator->UnregisterModel(model);
}

// --- Rows ---------------------------------------------------------------------------------------

absl::StatusOr<RowBlock> ClusterClient::Gather(const std::string& model, const std::string& table,
                                               absl::Span<const RowId> wanted, bool averaged) {
  return AwaitRepeated<RowBlock>(impl_->options, [&](Done<RowBlock> done) {
    GatherAsync(model, table, wanted, std::move(done), averaged);
  });
}

void ClusterClient::GatherAsync(const std::string& model, const std::string& table,
                                absl::Span<const RowId> wanted, Done<RowBlock> done,
                                bool averaged) {
  const absl::StatusOr<TableSpec> spec = impl_->Table(model, table);
  const auto slots = spec.ok() ? impl_->Slots(spec->num_slots) : spec.status();
  if (!slots.ok()) {
    done(slots.status());
    return;
  }
  const auto rows = std::make_shared<Gathering>();
  rows->slices = SliceRows(**slots, wanted);
  rows->places = FirstPlaces(rows->slices);
  rows->block.rows.assign(wanted.begin(), wanted.end());
  rows->block.dim = spec->dim;
  rows->block.values.resize(wanted.size() * static_cast<size_t>(spec->dim));
  if (spec->role != TableRole::kEmbedding) rows->block.biases.resize(wanted.size());
  struct Part {
    size_t shard, first, count;
  };
  std::vector<Part> parts;
  for (size_t s = 0; s < rows->slices.rows.size(); ++s) {
    const size_t all = rows->slices.rows[s].size();
    for (size_t first = 0; first < all; first += kIdsPerGather) {
      parts.push_back({s, first, std::min(kIdsPerGather, all - first)});
    }
  }
  if (parts.empty()) {
    done(RowBlock());
    return;
  }
  auto fan_in = std::make_shared<FanIn<GatherReply>>(  // shared by the callbacks of the parts
      parts.size(),
      [done = std::move(done), rows](const absl::StatusOr<std::vector<GatherReply>>& parts) {
        if (!parts.ok()) {
          done(parts.status());
          return;
        }
        CopyRepeats(rows->slices, rows->places, rows->block);
        done(std::move(rows->block));
      });
  for (size_t p = 0; p < parts.size(); ++p) {
    const wire::GatherTarget target = rows->Target(parts[p].shard, parts[p].first, parts[p].count);
    GatherCommand command;
    command.model = model;
    command.table = table;
    command.topology_version = impl_->map.topology_version;
    command.averaged = averaged;
    command.rows.assign(target.rows.begin(), target.rows.end());
    impl_->shards[parts[p].shard]->GatherAsync(
        command, target,
        [fan_in, p](absl::StatusOr<GatherReply> reply) { fan_in->Set(p, std::move(reply)); });
  }
}

absl::StatusOr<TopKReply> ClusterClient::TopK(const TopKCommand& query) {
  return AwaitRepeated<TopKReply>(impl_->options,
                                  [&](Done<TopKReply> done) { TopKAsync(query, std::move(done)); });
}

void ClusterClient::TopKAsync(const TopKCommand& query, Done<TopKReply> done) {
  std::vector<TopKCommand> parts;  // by shard; none where each gets the query as it is
  if (!query.candidates.empty()) {
    absl::StatusOr<std::vector<TopKCommand>> dealt = impl_->DealCandidates(query);
    if (!dealt.ok()) {
      done(dealt.status());
      return;
    }
    parts = *std::move(dealt);
  }
  auto fan_in = std::make_shared<FanIn<TopKReply>>(  // shared by the callbacks of the shards
      impl_->shards.size(), [done = std::move(done), batch = query.batch,
                             k = query.k](absl::StatusOr<std::vector<TopKReply>> parts) {
        if (!parts.ok()) {
          done(parts.status());
          return;
        }
        done(MergeTopK(*parts, batch, k));
      });
  for (size_t s = 0; s < impl_->shards.size(); ++s) {
    const bool last = s + 1 == impl_->shards.size();
    impl_->shards[s]->TopKAsync(
        parts.empty() ? query : parts[s],
        last ? ShardClient::Turn::kLast : ShardClient::Turn::kOthersFollow,
        [fan_in, s](absl::StatusOr<TopKReply> reply) { fan_in->Set(s, std::move(reply)); });
  }
}

ClusterScatterResult ClusterClient::Scatter(const std::string& model, const std::string& table,
                                            ScatterMode mode, const RowBlock& rows) {
  return Await<ClusterScatterResult>([&](std::function<void(ClusterScatterResult)> done) {
    ScatterAsync(model, table, mode, rows, std::move(done));
  });
}

void ClusterClient::ScatterAsync(const std::string& model, const std::string& table,
                                 ScatterMode mode, const RowBlock& rows,
                                 std::function<void(ClusterScatterResult)> done) {
  absl::StatusOr<std::vector<RowBlock>> parts = [&]() -> absl::StatusOr<std::vector<RowBlock>> {
    ASSIGN_OR_RETURN(const auto slots, impl_->TableSlots(model, table));
    return SliceBlock(*slots, rows, mode != ScatterMode::kAssign);
  }();
  if (!parts.ok()) {
    done({parts.status(), Outcome::kNotApplied, {}});
    return;
  }
  std::vector<bool> takes_part;
  for (const RowBlock& part : *parts) takes_part.push_back(!part.rows.empty());
  auto fan_in = std::make_shared<FanIn<ScatterResult>>(  // shared by the callbacks of the shards
      parts->size(),
      [done = std::move(done), takes_part](absl::StatusOr<std::vector<ScatterResult>> results) {
        ClusterScatterResult all;
        all.by_shard = *std::move(results);
        bool everywhere = true;
        bool nowhere = true;
        for (size_t s = 0; s < all.by_shard.size(); ++s) {
          const ScatterResult& part = all.by_shard[s];
          if (!takes_part[s]) continue;
          everywhere = everywhere && part.outcome == Outcome::kApplied;
          nowhere = nowhere && part.outcome == Outcome::kNotApplied;
          if (all.status.ok()) all.status = part.status;
        }
        all.outcome = everywhere ? Outcome::kApplied
                      : nowhere  ? Outcome::kNotApplied
                                 : Outcome::kUnknown;
        done(std::move(all));
      });
  for (size_t s = 0; s < parts->size(); ++s) {
    if ((*parts)[s].rows.empty()) {
      fan_in->Set(s, ScatterResult{absl::OkStatus(), Outcome::kApplied, 0});
      continue;
    }
    ScatterCommand command;
    command.envelope.model = model;
    command.table = table;
    command.mode = mode;
    command.rows = std::move((*parts)[s]);
    impl_->queues[s]->Submit(std::move(command), [fan_in, s](ScatterResult result) {
      fan_in->Set(s, std::move(result));
    });
  }
}

absl::StatusOr<std::vector<std::unique_ptr<ShardStream>>> ClusterClient::OpenStreams(
    const ModelSpec& spec, const ClientId& client) {
  std::vector<std::unique_ptr<ShardStream>> streams;
  for (const auto& shard : impl_->shards) {
    ShardStreamOptions options;
    options.job = impl_->options.job;
    options.client = client;
    options.model = spec.name;
    options.topology_version = impl_->map.topology_version;
    options.activations = spec.activations;
    options.timeout = impl_->options.timeout;
    options.retry = impl_->options.retry;
    options.request_id = impl_->options.request_id;
    options.on_round_trip = impl_->options.on_round_trip;
    ASSIGN_OR_RETURN(std::unique_ptr<ShardStream> stream,
                     ShardStream::Open(*shard, std::move(options), impl_->counters));
    streams.push_back(std::move(stream));
  }
  return streams;
}

std::vector<std::unique_ptr<StepChannel>> ClusterClient::OpenReads(const ModelSpec& spec) {
  std::vector<std::unique_ptr<StepChannel>> channels;
  for (const auto& shard : impl_->shards) {
    channels.push_back(std::make_unique<ReadChannel>(
        *shard, ReadChannelOptions{.model = spec.name,
                                   .topology_version = impl_->map.topology_version,
                                   .activations = spec.activations,
                                   .timeout = impl_->options.timeout}));
  }
  return channels;
}

void CloseStreams(absl::Span<const std::unique_ptr<ShardStream>> streams) {
  std::vector<std::thread> threads;
  for (const auto& stream : streams) {
    threads.emplace_back([&stream] { stream->Close().IgnoreError(); });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace dslide
