#include "client/cli/serve/served_model.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/protocol/coordinator_reason_words.h"
#include "core/protocol/reason_words.h"
#include "core/system/file_list.h"
#include "core/system/listen_address.h"
#include "core/system/log.h"

namespace dslide::cli {
namespace {

// Between attempts to reach a cluster that is away: soon enough for a shard that was only
// restarted.
constexpr absl::Duration kReopenPause = absl::Milliseconds(200);
constexpr absl::Duration kUnhealthyPause = absl::Seconds(1);
// A part of a cluster that needs longer for a call is away: callers of predictions do not wait as
// trainers do.
constexpr absl::Duration kClusterCallTimeout = absl::Seconds(5);

GlobalOptions WithShortCalls(GlobalOptions global) {
  const absl::StatusOr<absl::Duration> timeout = global.Timeout();
  if (timeout.ok() && *timeout > kClusterCallTimeout) {
    global.timeout = absl::FormatDuration(kClusterCallTimeout);
  }
  return global;
}

// Whether another connection, or a shard that comes back, may answer: everything else would be the
// same again.
bool MayHeal(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsFailedPrecondition(status) ||
         absl::IsNotFound(status);
}

// What was read of the model when it was opened: its spec, its texts, and its records, by their
// updates.
absl::StatusOr<std::string> StateOf(const OpenModel& open) {
  ASSIGN_OR_RETURN(const ModelDescription now,
                   open.session->client().DescribeModel(open.model().spec.name, false));
  std::string state;
  // Absent where the coordinator is of an earlier version.
  if (const auto assets =
          open.session->client().coordinator().ListModelAssets(open.model().spec.name);
      assets.ok()) {
    absl::StrAppend(&state, "assets ", assets->checksum, "\n");
  }
  for (size_t t = 0; t < now.spec.tables.size(); ++t) {
    const TableSpec& table = now.spec.tables[t];
    absl::StrAppend(&state, table.name, " ", table.rows, " ", table.dim, " ", table.memory.labels);
    for (const auto& shard : now.tables_by_shard) {
      // Other rows are read when they are asked for.
      if (table.role == TableRole::kLabelTrees || table.role == TableRole::kFusion)
        absl::StrAppend(&state, " ", shard[t].applied_steps);
    }
    absl::StrAppend(&state, "\n");
  }
  return state;
}

absl::StatusOr<std::vector<Prediction>> RankPart(ModelSession& session,
                                                 absl::Span<const RankQuery* const> queries,
                                                 RankOptions options) {
  if (!queries.front()->hidden.empty()) {
    std::vector<float> hidden;
    for (const RankQuery* query : queries) {
      hidden.insert(hidden.end(), query->hidden.begin(), query->hidden.end());
    }
    return session.RankHidden(std::move(hidden), options.k, options.hashed);
  }
  SparseBatch samples;
  std::vector<int64_t> points;
  for (const RankQuery* query : queries) {
    samples.features.insert(samples.features.end(), query->features.begin(), query->features.end());
    samples.values.insert(samples.values.end(), query->values.begin(), query->values.end());
    samples.FinishSample();
    points.push_back(static_cast<int64_t>(points.size()));
  }
  return session.Rank(std::move(samples), points, options.k, options.hashed);
}

absl::StatusOr<std::vector<Prediction>> RankAll(ModelSession& session,
                                                absl::Span<const RankQuery* const> queries,
                                                RankOptions options) {
  const size_t at_once = session.components() != nullptr
                             ? static_cast<size_t>(ComponentSession::kBatch)
                             : queries.size();
  std::vector<Prediction> all;
  for (size_t first = 0; first < queries.size(); first += at_once) {
    ASSIGN_OR_RETURN(std::vector<Prediction> part,
                     RankPart(session, queries.subspan(first, at_once), options));
    std::move(part.begin(), part.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace

int64_t OpenModel::hidden_dim() const {
  return session->network() == nullptr ? 0 : session->network()->head().dim;
}

bool OpenModel::hashes() const {
  return session->network() != nullptr && session->network()->hash_family() != nullptr;
}

int64_t OpenModel::num_labels() const { return model().spec.num_labels(); }

int64_t OpenModel::num_features() const {
  if (session->network() != nullptr) return session->network()->num_features();
  // A memory takes any.
  return model().features.idf.empty() ? kMaxTableRows
                                      : static_cast<int64_t>(model().features.idf.size());
}

ServedModel::ServedModel(const GlobalOptions& global, ServedModelOptions options, Metrics& metrics,
                         const Clock& clock)
    : global_(options.model.cluster.empty() ? global : WithShortCalls(global)),
      options_(std::move(options)),
      clock_(clock),
      opened_(metrics.AddCounter("dslide_serve_model_opens_total",
                                 "Times that the model was opened: at the start, after a change, "
                                 "after its cluster was away.")) {}

absl::Status ServedModel::Start(std::function<void(const absl::Status&)> opened) {
  if (!of_cluster()) {
    absl::Status status = Reopen();
    SetHealth(status);
    if (status.ok() && opened) opened(status);
    return status;
  }
  watcher_ = std::thread([this, opened = std::move(opened)] {
    if (AwaitModel(opened)) Watch();
  });
  return absl::OkStatus();
}

bool ServedModel::MayArrive(const absl::Status& status) const {
  // A model that is being made is not complete yet, or has no names and weights yet.
  if (MayHeal(status) || ReasonOf(status) == reason::kUnknownModel ||
      ReasonOf(status) == reason::kUnknownAssets) {
    return true;
  }
  // A host that is just being started may have no name yet.
  const absl::StatusOr<ListenAddress> address = ParseListenAddress(options_.model.cluster);
  return absl::IsInvalidArgument(status) && address.ok() && !address->is_unix &&
         !ResolveHost(*address).ok();
}

bool ServedModel::AwaitModel(const std::function<void(const absl::Status&)>& opened) {
  const absl::Duration deadline = clock_.Now() + options_.patience;
  absl::Status shown;
  for (;;) {
    absl::Status status = Reopen();
    if (status.ok()) {
      SetHealth(status);
      if (opened) opened(status);
      return true;
    }
    const bool over = clock_.Now() + kUnhealthyPause >= deadline;
    if (over || !MayArrive(status)) {
      if (over && options_.patience > absl::ZeroDuration()) {
        status =
            StatusWithReason(status.code(), ReasonOf(status),
                             absl::StrCat(status.message(), "; waited for ",
                                          absl::FormatDuration(options_.patience), " (--wait)"));
      }
      if (opened) opened(status);
      return false;
    }
    if (status != shown) {
      LogWarning("waiting for the model",
                 {{"cluster", options_.model.cluster}, {"why", status.message()}});
      if (options_.on_health) options_.on_health(status);
      shown = status;
    }
    if (!Pause(kUnhealthyPause)) return false;
  }
}

bool ServedModel::Pause(absl::Duration pause) {
  const absl::MutexLock lock(&mu_);
  return !mu_.AwaitWithTimeout(absl::Condition(&stopped_), pause);
}

ServedModel::~ServedModel() { Close().IgnoreError(); }

std::shared_ptr<const OpenModel> ServedModel::current() const {
  const absl::MutexLock lock(&mu_);
  return current_;
}

absl::Status ServedModel::Reopen() {
  const absl::MutexLock open_lock(&open_mu_);
  ASSIGN_OR_RETURN(std::unique_ptr<ModelSession> session,
                   ModelSession::Open(global_, options_.model));
  auto opened = std::make_shared<OpenModel>(std::move(session));  // as current_
  std::string state;
  if (of_cluster()) {
    ASSIGN_OR_RETURN(state, StateOf(*opened));
  }
  opened_.Increment();
  const absl::MutexLock lock(&mu_);
  current_ = std::move(opened);
  opened_state_ = std::move(state);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Prediction>> ServedModel::Rank(
    absl::Span<const RankQuery* const> queries, RankOptions options, absl::Duration deadline) {
  for (;;) {
    std::shared_ptr<OpenModel> model;  // as current_
    {
      const absl::MutexLock lock(&mu_);
      model = current_;
    }
    absl::StatusOr<std::vector<Prediction>> ranked = RankAll(*model->session, queries, options);
    if (ranked.ok()) {
      SetHealth(absl::OkStatus());
      return ranked;
    }
    if (!of_cluster() || !MayHeal(ranked.status())) return ranked;
    SetHealth(ranked.status());
    if (clock_.Now() + kReopenPause >= deadline || !Pause(kReopenPause)) return ranked;
    Reopen().IgnoreError();  // the next attempt says what is wrong
  }
}

void ServedModel::SetHealth(const absl::Status& health) {
  {
    const absl::MutexLock lock(&mu_);
    if (healthy_ == health.ok()) return;
    healthy_ = health.ok();
  }
  if (!health.ok()) LogWarning("the model cannot be asked", {{"error", health.message()}});
  if (options_.on_health) options_.on_health(health);
}

absl::Status ServedModel::Refresh() {
  std::shared_ptr<OpenModel> model;  // as current_
  std::string known;
  bool healthy = false;
  {
    const absl::MutexLock lock(&mu_);
    model = current_;
    known = opened_state_;
    healthy = healthy_;
  }
  // A model whose records are being made has no state that could be opened: it stays what it was.
  if (healthy) {
    ASSIGN_OR_RETURN(const std::string now, StateOf(*model));
    return now == known ? absl::OkStatus() : Reopen();
  }
  return Reopen();
}

void ServedModel::Watch() {
  absl::Duration pause = options_.refresh;
  for (;;) {
    if (!Pause(pause)) return;
    const absl::Status health = Refresh();
    // While its records are made anew, a model is asked as it was opened.
    if (health.ok() || MayHeal(health)) SetHealth(health);
    pause = health.ok() ? options_.refresh : std::min(kUnhealthyPause, options_.refresh);
  }
}

absl::Status ServedModel::Close() {
  {
    const absl::MutexLock lock(&mu_);
    stopped_ = true;
  }
  if (watcher_.joinable()) watcher_.join();
  std::shared_ptr<OpenModel> last;  // as current_
  {
    const absl::MutexLock lock(&mu_);
    last = std::move(current_);
  }
  return last == nullptr ? absl::OkStatus() : last->session->Close();
}

}  // namespace dslide::cli
