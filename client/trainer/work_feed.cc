#include "client/trainer/work_feed.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/channel_factory.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"

namespace dslide {
namespace {

constexpr absl::Duration kFirstRetry = absl::Milliseconds(100);
constexpr absl::Duration kLongestRetry = absl::Seconds(2);
constexpr int kMaxRejoins = 100;

bool IsTransient(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsResourceExhausted(status);
}

// Whether no shard's part of the input is beyond what a message holds.
bool IsSendable(const PreparedBatch& batch) {
  constexpr size_t kWordBytes = 4;  // of an offset, an id, a value
  return std::all_of(batch.inputs.begin(), batch.inputs.end(), [](const EmbedForwardOp& input) {
    return (input.offsets.size() + input.rows.size() + input.values.size()) * kWordBytes <=
           size_t{kMaxMessageBytes};
  });
}

}  // namespace

WorkFeed::WorkFeed(WorkFeedOptions options, const Dataset& data, const TrainingSplit& split,
                   const BatchPreparer* preparer, Acquire acquire, Warn warn, Rejoin rejoin)
    : options_(std::move(options)),
      data_(data),
      split_(split),
      preparer_(preparer),
      acquire_(std::move(acquire)),
      warn_(std::move(warn)),
      rejoin_(std::move(rejoin)),
      thread_([this] { Run(); }) {}

WorkFeed::~WorkFeed() {
  {
    absl::MutexLock lock(&mu_);
    stop_ = true;
  }
  thread_.join();
}

FeedItem WorkFeed::Next() { return NextWithin(absl::InfiniteDuration()); }

FeedItem WorkFeed::NextWithin(absl::Duration patience) {
  absl::MutexLock lock(&mu_);
  ++calls_;
  const auto has_item = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return !queue_.empty(); };
  FeedItem item = NothingYet{};
  if (mu_.AwaitWithTimeout(absl::Condition(&has_item), patience)) {
    item = std::move(queue_.front());
    queue_.pop_front();
  } else {
    --calls_;
  }
  return item;
}

void WorkFeed::Finish(const LeaseReport& lease) {
  absl::MutexLock lock(&mu_);
  const auto held = std::find(held_.begin(), held_.end(), lease.lease);
  if (held == held_.end()) return;
  held_.erase(held);
  finished_.push_back(lease);
}

bool WorkFeed::Push(FeedItem item) {
  for (;;) {
    {
      absl::MutexLock lock(&mu_);
      const auto can_go_on = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
        return stop_ || queue_.size() < options_.queued_items;
      };
      if (mu_.AwaitWithTimeout(absl::Condition(&can_go_on), options_.renew_interval)) {
        if (stop_) return false;
        queue_.push_back(std::move(item));
        ++pushed_;
        return true;
      }
    }
    // A lost renewal shows at the next call that wants work; here it is not an error.
    (void)Ask(/*want_work=*/false);
  }
}

absl::StatusOr<Work> WorkFeed::Ask(bool want_work) {
  WorkRequest request;
  request.job = options_.job;
  request.client = options_.client;
  request.want_work = want_work;
  {
    absl::MutexLock lock(&mu_);
    request.finished = finished_;
    request.held = held_;
  }
  absl::StatusOr<Work> work = acquire_(request);
  if (!work.ok()) return work;
  absl::MutexLock lock(&mu_);
  // Reports may have come in while the call ran: only those that were sent are done.
  finished_.erase(finished_.begin(),
                  finished_.begin() + static_cast<std::ptrdiff_t>(request.finished.size()));
  if (const auto* chunk = std::get_if<ChunkWork>(&*work)) held_.push_back(chunk->lease);
  if (const auto* evaluation = std::get_if<EvaluationWork>(&*work)) {
    held_.push_back(evaluation->lease);
  }
  if (const auto* stage = std::get_if<StageWork>(&*work)) held_.push_back(stage->lease);
  return work;
}

bool WorkFeed::JoinAgain(bool drained) {
  if (++rejoins_ > kMaxRejoins) {
    Push(absl::InternalError(
        absl::StrCat("the coordinator forgets job \"", options_.job, "\" again and again")));
    return false;
  }
  warn_("the coordinator was restarted and has forgotten the job: its epoch begins again");
  if (!drained && !Push(DrainSteps{})) return false;
  {
    absl::MutexLock lock(&mu_);
    // New leases may have the numbers of old ones: nothing old may be reported from now on.
    const auto dealt_with = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return stop_ || calls_ > pushed_;
    };
    mu_.Await(absl::Condition(&dealt_with));
    if (stop_) return false;
    held_.clear();
    finished_.clear();
  }
  absl::Status joined = rejoin_();
  // The shards have the model, and tell a coordinator that has forgotten it.
  for (absl::Duration waited;
       ReasonOf(joined) == reason::kUnknownModel && waited < options_.patience;
       waited += kLongestRetry) {
    Pause(kLongestRetry, /*until_report=*/false);
    {
      absl::MutexLock lock(&mu_);
      if (stop_) return false;
    }
    joined = rejoin_();
  }
  if (!joined.ok()) {
    Push(std::move(joined));
    return false;
  }
  return true;
}

void WorkFeed::Pause(absl::Duration pause, bool until_report) {
  absl::MutexLock lock(&mu_);
  const auto wake = [this, until_report]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return stop_ || (until_report && !finished_.empty());
  };
  mu_.AwaitWithTimeout(absl::Condition(&wake), pause);
}

bool WorkFeed::WaitUntilReported(uint64_t lease) {
  for (;;) {
    {
      absl::MutexLock lock(&mu_);
      const auto reported = [this, lease]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
        return stop_ || std::find(held_.begin(), held_.end(), lease) == held_.end();
      };
      if (mu_.AwaitWithTimeout(absl::Condition(&reported), options_.renew_interval)) return !stop_;
    }
    (void)Ask(/*want_work=*/false);
  }
}

std::vector<int64_t> WorkFeed::PointsOf(const ChunkWork& chunk, int64_t first,
                                        int64_t count) const {
  const EpochOrder order(split_.num_training(), options_.seed, chunk.epoch);
  std::vector<int64_t> points;
  points.reserve(static_cast<size_t>(count));
  for (int64_t i = first; i < first + count; ++i) {
    points.push_back(split_.TrainingPoint(order.PointAt(i)));
  }
  return points;
}

absl::StatusOr<PreparedBatch> WorkFeed::PrepareStep(const ChunkWork& chunk, int64_t first,
                                                    int64_t& count) const {
  for (;;) {
    absl::StatusOr<PreparedBatch> batch =
        preparer_->Prepare(data_, BatchUse::kTraining, chunk.epoch, PointsOf(chunk, first, count));
    if (!batch.ok() || count == 1 || IsSendable(*batch)) return batch;
    count /= 2;
  }
}

bool WorkFeed::HandOut(const ChunkWork& chunk) {
  if (preparer_ == nullptr || chunk.first < 0 || chunk.count < 0 ||
      chunk.first + chunk.count > split_.num_training()) {
    Push(absl::InternalError(absl::StrCat("the coordinator leased points [", chunk.first, ", ",
                                          chunk.first + chunk.count, ") of ",
                                          split_.num_training())));
    return false;
  }
  const int64_t end = chunk.first + chunk.count;
  for (int64_t first = chunk.first, count = 0; first < end; first += count) {
    count = std::min(options_.batch_size, end - first);
    absl::StatusOr<PreparedBatch> batch = PrepareStep(chunk, first, count);
    if (!batch.ok()) {
      Push(batch.status());
      return false;
    }
    if (batch->samples() == 0) continue;
    batch->lease = chunk.lease;
    // A function of the lease alone: any trainer, at any time, gives it the same number.
    const int64_t before = chunk.epoch * split_.num_training() + first;
    batch->job_step = Step(before / options_.batch_size + 1);
    if (!Push(*std::move(batch))) return false;
    ++steps_;
    if (steps_ == options_.max_steps) {
      if (first + count >= end) Push(ChunkEnd{chunk.lease});
      Push(StepLimitReached{});
      return false;
    }
  }
  return Push(ChunkEnd{chunk.lease});
}

void WorkFeed::Run() {
  bool drained = true;  // no batch was handed out since the last DrainSteps
  absl::Duration away;
  absl::Duration retry = kFirstRetry;
  for (;;) {
    {
      absl::MutexLock lock(&mu_);
      if (stop_) return;
    }
    absl::StatusOr<Work> work = Ask(/*want_work=*/true);
    if (absl::IsNotFound(work.status())) {
      if (!JoinAgain(drained)) return;
      drained = true;
      continue;
    }
    if (!work.ok() && !IsTransient(work.status())) {
      Push(work.status());
      return;
    }
    if (!work.ok()) {
      if (away == absl::ZeroDuration()) {
        warn_(absl::StrCat("the coordinator is away, trying again: ", work.status().message()));
      }
      if (away >= options_.patience) {
        Push(work.status());
        return;
      }
      if (!drained && !Push(DrainSteps{})) return;
      drained = true;
      Pause(retry, /*until_report=*/false);
      away += retry;
      retry = std::min(retry * 2, kLongestRetry);
      continue;
    }
    if (away > absl::ZeroDuration()) warn_("the coordinator is back");
    away = absl::ZeroDuration();
    retry = kFirstRetry;
    if (const auto* chunk = std::get_if<ChunkWork>(&*work)) {
      drained = false;
      if (!HandOut(*chunk)) return;
      continue;
    }
    if (!drained && !Push(DrainSteps{})) return;
    drained = true;
    if (const auto* evaluation = std::get_if<EvaluationWork>(&*work)) {
      if (!Push(*evaluation) || !WaitUntilReported(evaluation->lease)) return;
    } else if (const auto* stage = std::get_if<StageWork>(&*work)) {
      if (!Push(*stage) || !WaitUntilReported(stage->lease)) return;
    } else if (const auto* wait = std::get_if<WaitForWork>(&*work)) {
      Pause(wait->pause, /*until_report=*/true);
    } else {
      Push(std::get<NoMoreWork>(*work));
      return;
    }
  }
}

}  // namespace dslide
