#include "client/cli/conformance/training_check.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/conformance/course_slots.h"
#include "core/base/status_macros.h"
#include "core/spec/spec_difference.h"
#include "core/wire/cluster_codec.h"
#include "core/wire/steps/step_answer_codec.h"
#include "core/wire/steps/step_codec.h"

namespace dslide::cli {
namespace {

// Of a dense layer's operation, which alone has several in a step.
std::string TableOf(const v1::StepRequest& request) {
  return request.has_dense_gather() ? request.dense_gather().table()
                                    : request.dense_scatter().table();
}

}  // namespace

absl::StatusOr<std::unique_ptr<TrainingCheck>> TrainingCheck::Create(const Course& course,
                                                                     Verdicts& verdicts) {
  std::unique_ptr<TrainingCheck> check(new TrainingCheck(verdicts));
  for (const CourseNet& net : course.nets) {
    ASSIGN_OR_RETURN(check->nets_.emplace_back(), NetReference::Create(net, course.points));
  }
  return check;
}

const NetReference* TrainingCheck::NetOf(const std::string& model) const {
  for (const auto& net : nets_) {
    if (net->spec().name == model) return net.get();
  }
  return nullptr;
}

void TrainingCheck::Tell(Chapter chapter, const char* call, std::string field, std::string found,
                         std::string expected) {
  verdicts_.Add({.chapter = chapter,
                 .call = call,
                 .where = "",
                 .field = std::move(field),
                 .found = std::move(found),
                 .expected = std::move(expected),
                 .section = chapter == Chapter::kJobs ? "jobs" : "training"});
}

void TrainingCheck::Registered(const v1::JobSpec& spec) {
  verdicts_.Saw(Chapter::kJobs);
  const auto tell = [this](absl::string_view field, const auto& found, const auto& expected) {
    Tell(Chapter::kJobs, "RegisterJob", std::string(field), absl::StrCat(found),
         absl::StrCat(expected));
  };
  const auto found = wire::DecodeJobSpec(spec);
  if (!found.ok()) return;  // the coordinator refuses it
  const NetReference* const net = NetOf(found->model);
  if (net == nullptr) {
    tell("model", found->model, "that of a task of the course");
    return;
  }
  const JobSpec& wanted = net->job();
  if (found->job != wanted.job) tell("job", found->job, wanted.job);
  if (found->samples_per_epoch != wanted.samples_per_epoch) {
    tell("samples_per_epoch", found->samples_per_epoch, wanted.samples_per_epoch);
  }
  if (found->chunk_samples != wanted.chunk_samples) {
    tell("chunk_samples", found->chunk_samples, wanted.chunk_samples);
  }
  if (found->max_epochs != wanted.max_epochs) {
    tell("max_epochs", found->max_epochs, wanted.max_epochs);
  }
  if (found->seed != wanted.seed) tell("seed", found->seed, wanted.seed);
  if (found->evaluate || found->staged) {
    tell("evaluate, staged", "true", "false: no point is held out");
  }
  if (const auto differs = FirstDifference(wanted.training, found->training); differs.has_value()) {
    tell(differs->field, differs->other, differs->known);
  }
  if (found->rates.size() != wanted.rates.size()) {
    tell("rates", found->rates.size(), absl::StrCat(wanted.rates.size(), ", one for each table"));
    return;
  }
  for (size_t i = 0; i < wanted.rates.size(); ++i) {
    const auto differs = FirstDifference(wanted.rates[i], found->rates[i]);
    if (differs.has_value()) tell(differs->field, differs->other, differs->known);
  }
}

void TrainingCheck::CheckReport(const v1::WorkReport& report) {
  const auto found = leases_.find(report.lease_id());
  if (found == leases_.end()) return;  // said once more
  const Lease lease = found->second;
  leases_.erase(found);
  std::erase(to_begin_, report.lease_id());
  const auto tell = [&](absl::string_view field, absl::string_view is, std::string must) {
    Tell(Chapter::kJobs, "AcquireWork", absl::StrCat("finished.", field),
         absl::StrCat(is, " for positions ", lease.first, " to ", lease.first + lease.count - 1,
                      " of epoch ", lease.epoch),
         std::move(must));
  };
  if (lease.finished != lease.count) {
    tell(
        "lease_id",
        absl::StrCat("reported when ", lease.finished, " of ", lease.count, " points were trained"),
        "reported when every step of the lease has been answered");
    return;
  }
  if (report.samples() != lease.count) {
    tell("samples", absl::StrCat(report.samples()), absl::StrCat(lease.count));
  }
  // Sums in f64 of losses whose logits are f32: a client may sum in another order.
  if (std::abs(report.loss_sum() - lease.loss_sum) > 1e-5 * std::max(1.0, lease.loss_sum)) {
    tell("loss_sum", NumberOf(report.loss_sum()),
         absl::StrCat(NumberOf(lease.loss_sum),
                      lease.net->network().head().head.loss == HeadLoss::kSigmoid
                          ? ": over the samples, the sum of the shards' sums less that of target * "
                            "logit over its labels"
                          : ": over the samples, the sum over its labels of target * (log Z - "
                            "logit)"));
  }
}

void TrainingCheck::Acquired(const v1::AcquireWorkRequest& request,
                             const v1::AcquireWorkResponse& response) {
  const absl::MutexLock lock(&mu_);
  for (const v1::WorkReport& report : request.finished()) CheckReport(report);
  if (!response.has_chunk()) return;
  const auto net = std::find_if(nets_.begin(), nets_.end(), [&](const auto& candidate) {
    return candidate->job().job == request.job();
  });
  const v1::ChunkLease& chunk = response.chunk();
  if (net == nets_.end() || leases_.contains(chunk.lease_id())) return;
  leases_[chunk.lease_id()] = {
      .net = net->get(), .epoch = chunk.epoch(), .first = chunk.first(), .count = chunk.count()};
  to_begin_.push_back(chunk.lease_id());
}

StepCheck* TrainingCheck::Find(const v1::StepRequest& request) {
  const Key key = {request.envelope().client_id(), request.step()};
  const auto open = steps_.find(key);
  if (open != steps_.end()) return &open->second.check;
  const NetReference* const net = NetOf(request.envelope().model());
  if (net == nullptr) return nullptr;
  if (!request.has_embed_forward()) {
    Tell(net->chapter(), "Step", "step",
         absl::StrCat(request.step(), ", which is not open, without EmbedForward"),
         "the step of an EmbedForward before it");
    return nullptr;
  }
  auto next = to_begin_.begin();
  while (next != to_begin_.end() && leases_.at(*next).net != net) ++next;
  if (next == to_begin_.end()) {
    Tell(Chapter::kJobs, "EmbedForward", "step",
         absl::StrCat(request.step(), ", for which no leased point is left"),
         "a step of points that AcquireWork has leased; predictions use Read");
    return nullptr;
  }
  const uint64_t id = *next;
  Lease& lease = leases_.at(id);
  const int64_t first = lease.first + lease.begun;
  const int64_t count = std::min(net->spec().training.batch_size, lease.count - lease.begun);
  lease.begun += count;
  if (lease.begun == lease.count) to_begin_.erase(next);
  auto batch = net->Batch(lease.epoch, first, count);
  if (!batch.ok()) return nullptr;
  Open begun{.lease = id,
             .check = StepCheck(*net, *std::move(batch), request.step(), first, verdicts_)};
  return &steps_.emplace(key, std::move(begun)).first->second.check;
}

void TrainingCheck::CheckNumbers(int shard, Chapter chapter, const v1::StepRequest& request) {
  const std::string& client = request.envelope().client_id();
  int64_t& highest = highest_[client];
  int64_t lowest = request.step();
  for (auto open = steps_.lower_bound({client, 0});
       open != steps_.end() && open->first.first == client; ++open) {
    if (!open->second.check.Over(shard)) lowest = std::min(lowest, open->first.second);
  }
  if (request.step() < highest && !steps_.contains({client, request.step()})) {
    Tell(chapter, "Step", "step", absl::StrCat(request.step(), " after ", highest),
         "numbers that increase");
  }
  highest = std::max(highest, request.step());
  if (request.first_open_step() > lowest) {
    Tell(chapter, "Step", "first_open_step", absl::StrCat(request.first_open_step()),
         absl::StrCat("at most ", lowest,
                      ", the lowest step with operations still to come: the shard drops "
                      "what it keeps of those below"));
  }
}

void TrainingCheck::Request(int shard, const v1::StepRequest& request) {
  const absl::MutexLock lock(&mu_);
  const NetReference* const net = NetOf(request.envelope().model());
  if (net == nullptr) return;
  verdicts_.Saw(net->chapter());
  CheckNumbers(shard, net->chapter(), request);
  StepCheck* const step = Find(request);
  if (step == nullptr) return;
  const auto operation = wire::DecodeStepOperation(request);
  if (!operation.ok()) {
    Tell(net->chapter(), "Step", "the operation", std::string(operation.status().message()),
         "of the form that protos/dslide/v1/shard.proto states");
    return;
  }
  step->Request(shard, *operation);
}

void TrainingCheck::Answer(int shard, const v1::StepRequest& request,
                           const v1::StepResponse& response) {
  const absl::MutexLock lock(&mu_);
  const auto open = steps_.find({request.envelope().client_id(), request.step()});
  if (open == steps_.end() || response.has_error()) return;
  const auto answer = wire::DecodeStepResponse(response);
  if (!answer.ok()) return;
  StepCheck& check = open->second.check;
  check.Answer(shard, TableOf(request), answer->reply.body);
  if (!check.done()) return;
  const auto lease = leases_.find(open->second.lease);
  if (lease != leases_.end()) {
    lease->second.finished += check.samples();
    lease->second.loss_sum += check.loss_sum();
  }
  steps_.erase(open);
}

void TrainingCheck::Finish() {
  const absl::MutexLock lock(&mu_);
  for (const auto& open : steps_) {
    Tell(open.second.check.chapter(), "Step", "the end",
         absl::StrCat("step ", open.first.second, " without ", open.second.check.Missing()),
         "all operations of a step to every shard, also to one without rows of it; gradients of a "
         "dense layer to those that have rows of it");
  }
  for (const auto& lease : leases_) {
    Tell(Chapter::kJobs, "AcquireWork", "finished",
         absl::StrCat("never lease ", lease.first, " (positions ", lease.second.first, " to ",
                      lease.second.first + lease.second.count - 1, " of epoch ", lease.second.epoch,
                      ")"),
         "every lease that was given, once its points are trained");
  }
}

}  // namespace dslide::cli
