// A job under random losses of messages, trainers and coordinators.

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "core/base/counter_rng.h"
#include "services/coordinator/jobs/job.h"
#include "tests/unit/services/coordinator/jobs/job_fixture.h"

namespace dslide::coordinator {
namespace {

// One simulated trainer: may lose requests, answers and itself.
struct SimulatedTrainer {
  ClientId client = {};
  std::map<LeaseId, ChunkWork> chunks = {};
  std::optional<EvaluationWork> evaluation = {};
  std::optional<StageWork> completion = {};
};

// A job and random trainers that join, pause, die and lose messages, with a count of what the job
// counted.
class SimulatedJob {
 public:
  explicit SimulatedJob(uint64_t seed) : rng_(DeriveKey(20240601, seed)), spec_(RandomSpec(rng_)) {
    job_.emplace(spec_, kTiming);
  }

  const JobSpec& spec() const { return spec_; }
  const Job& job() const { return *job_; }
  // Of all lives of the job.
  JobCounters counters() const {
    JobCounters sum = past_lives_;
    return sum += job_->counters();
  }
  absl::Duration now() const { return now_; }
  bool over() const { return over_; }

  void Step() {
    now_ += absl::Milliseconds(rng_.NextBelow(1500));
    if (trainers_.size() < 2 || (trainers_.size() < 5 && rng_.NextBelow(20) == 0)) {
      trainers_.push_back({.client = Client(next_client_++)});
    }
    const size_t who = rng_.NextBelow(trainers_.size());
    const uint64_t fate = rng_.NextBelow(100);
    if (fate < 4) {  // dies; or leaves in good order
      if (fate < 2) job_->Leave(trainers_[who].client, now_);
      trainers_.erase(trainers_.begin() + static_cast<int64_t>(who));
      return;
    }
    if (fate < 12) now_ += absl::Seconds(rng_.NextBelow(15));  // a pause of the whole world
    if (fate < 16) Restart();
    const WorkRequest request = RandomRequest(trainers_[who]);
    if (rng_.NextBelow(20) == 0) return;  // the request is lost
    const auto work = Ask(trainers_[who], request);
    if (!work.has_value() || rng_.NextBelow(20) == 0) return;  // the answer is lost
    Take(trainers_[who], request, *work);
  }

 private:
  // The coordinator does, and has the job from its store.
  void Restart() {
    const JobState state = job_->State();
    past_lives_ += job_->counters();
    job_.emplace(spec_, kTiming);
    const absl::Status resumed = job_->Resume(state, now_);
    EXPECT_TRUE(resumed.ok()) << resumed;
    EXPECT_EQ(job_->State(), state);
  }

  static constexpr JobTiming kTiming{.lease_timeout = absl::Seconds(10),
                                     .wait = absl::Milliseconds(1)};

  static JobSpec RandomSpec(CounterRng& rng) {
    JobSpec spec = Spec(1 + static_cast<int64_t>(rng.NextBelow(60)),
                        1 + static_cast<int64_t>(rng.NextBelow(9)),
                        1 + static_cast<int64_t>(rng.NextBelow(4)));
    spec.evaluate = rng.NextBelow(2) == 0;
    return spec;
  }

  // Some of what the trainer holds is done, some is renewed, some was forgotten.
  WorkRequest RandomRequest(const SimulatedTrainer& trainer) {
    WorkRequest request{.client = trainer.client};
    for (const auto& [lease, chunk] : trainer.chunks) {
      if (rng_.NextBelow(2) == 0) {
        request.finished.push_back({.lease = lease, .samples = chunk.count});
      } else if (rng_.NextBelow(8) != 0) {
        request.held.push_back(lease);
      }
    }
    if (trainer.evaluation.has_value() && rng_.NextBelow(2) == 0) {
      request.finished.push_back({.lease = trainer.evaluation->lease, .metric = 0.5});
    } else if (trainer.evaluation.has_value()) {
      request.held.push_back(trainer.evaluation->lease);
    }
    if (trainer.completion.has_value() && rng_.NextBelow(2) == 0) {
      request.finished.push_back({.lease = trainer.completion->lease, .best_restored = true});
    } else if (trainer.completion.has_value()) {
      request.held.push_back(trainer.completion->lease);
    }
    request.want_work = rng_.NextBelow(5) != 0;
    return request;
  }

  // Makes the request and checks what the job counted.
  std::optional<Work> Ask(const SimulatedTrainer& trainer, const WorkRequest& request) {
    const int64_t before = job_->counters().chunks_done;
    const int64_t epoch = job_->Status(now_).epoch;
    const auto work = job_->Acquire(request, now_);
    EXPECT_TRUE(work.ok()) << work.status();
    if (!work.ok()) return std::nullopt;
    for (const LeaseReport& report : request.finished) {
      const auto chunk = trainer.chunks.find(report.lease);
      if (chunk != trainer.chunks.end()) {
        reported_[chunk->second.epoch].insert(chunk->second.first);
      }
    }
    counted_[epoch] += job_->counters().chunks_done - before;
    EXPECT_LE(counted_[epoch], spec_.NumChunks());
    if (job_->Status(now_).epoch != epoch) {
      EXPECT_EQ(counted_[epoch], spec_.NumChunks());
      EXPECT_EQ(reported_[epoch].size(), static_cast<size_t>(spec_.NumChunks()));
      EXPECT_EQ(job_->Status(now_).epoch, epoch + 1);
    }
    return *work;
  }

  // The answer has arrived.
  void Take(SimulatedTrainer& trainer, const WorkRequest& request, const Work& work) {
    for (const LeaseReport& report : request.finished) {
      trainer.chunks.erase(report.lease);
      if (trainer.evaluation.has_value() && trainer.evaluation->lease == report.lease) {
        trainer.evaluation.reset();
      }
      if (trainer.completion.has_value() && trainer.completion->lease == report.lease) {
        trainer.completion.reset();
      }
    }
    if (const auto* chunk = std::get_if<ChunkWork>(&work)) {
      EXPECT_EQ(chunk->epoch, job_->Status(now_).epoch);
      trainer.chunks[chunk->lease] = *chunk;
    } else if (const auto* evaluation = std::get_if<EvaluationWork>(&work)) {
      EXPECT_EQ(job_->Status(now_).samples_done, spec_.samples_per_epoch);
      trainer.evaluation = *evaluation;
    } else if (const auto* completion = std::get_if<StageWork>(&work)) {
      EXPECT_EQ(job_->Status(now_).epoch, spec_.max_epochs);
      trainer.completion = *completion;
    } else if (const auto* end = std::get_if<NoMoreWork>(&work)) {
      EXPECT_EQ(end->best_restored, spec_.evaluate);
    }
    over_ = std::holds_alternative<NoMoreWork>(work);
  }

  CounterRng rng_;
  const JobSpec spec_;
  std::optional<Job> job_;
  JobCounters past_lives_;
  absl::Duration now_;
  uint8_t next_client_ = 1;
  bool over_ = false;
  std::vector<SimulatedTrainer> trainers_;
  std::map<int64_t, int64_t> counted_;             // epoch -> chunks that the job counted
  std::map<int64_t, std::set<int64_t>> reported_;  // epoch -> chunks that were ever reported
};

// Whatever happens, each chunk of each epoch is counted once, epochs do not overlap, and each epoch
// is evaluated once.
TEST(JobPropertyTest, EachChunkCountsOncePerEpochUnderRandomLosses) {
  for (uint64_t seed = 1; seed <= 300 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    SimulatedJob world(seed);
    for (int step = 0; step < 20000 && !world.over(); ++step) world.Step();
    ASSERT_TRUE(world.over()) << "the job did not end";
    const JobSpec& spec = world.spec();
    EXPECT_EQ(world.counters().chunks_done, spec.NumChunks() * spec.max_epochs);
    EXPECT_EQ(world.counters().evaluations_done, spec.evaluate ? spec.max_epochs : 0);
    EXPECT_EQ(world.job().Status(world.now()).epoch, spec.max_epochs);
  }
}

// At no time do two live leases name the same chunk, and a lease's chunk never changes.
TEST(JobPropertyTest, NoChunkIsLeasedTwiceAtOnce) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    CounterRng rng(DeriveKey(7, seed));
    Job job(Spec(40, 1 + static_cast<int64_t>(rng.NextBelow(5)), 2),
            {.lease_timeout = absl::Seconds(10), .wait = absl::Milliseconds(1)});
    absl::Duration now;
    std::map<LeaseId, std::pair<ChunkWork, absl::Duration>> live;  // by our own book-keeping
    for (int step = 0; step < 400; ++step) {
      now += absl::Milliseconds(rng.NextBelow(4000));
      std::erase_if(live, [&](const auto& lease) { return lease.second.second <= now; });
      const auto client = static_cast<uint8_t>(1 + rng.NextBelow(4));
      WorkRequest request{.client = Client(client)};
      const auto work = job.Acquire(request, now);  // never reports: everything runs out
      ASSERT_TRUE(work.ok());
      const auto* chunk = std::get_if<ChunkWork>(&*work);
      if (chunk == nullptr) continue;
      for (const auto& [lease, entry] : live) {
        if (lease != chunk->lease) {
          ASSERT_NE(entry.first.first, chunk->first);
        }
      }
      const auto known = live.find(chunk->lease);
      if (known != live.end()) {
        ASSERT_EQ(known->second.first, *chunk);
      }
      live[chunk->lease] = {*chunk, now + absl::Seconds(10)};
    }
  }
}

}  // namespace
}  // namespace dslide::coordinator
