#include "client/cli/conformance/net_reference.h"

#include <utility>
#include <vector>

#include "core/base/status_macros.h"
#include "core/engine/data/epoch_order.h"
#include "core/partition/slot_map.h"
#include "core/spec/spec_difference.h"

namespace dslide::cli {

NetReference::NetReference(Chapter chapter, Network network, std::unique_ptr<SparseDataset> data)
    : chapter_(chapter), network_(std::move(network)), data_(std::move(data)) {}

absl::StatusOr<std::unique_ptr<NetReference>> NetReference::Create(const CourseNet& net,
                                                                   const std::string& points) {
  ASSIGN_OR_RETURN(Network network, Network::Create(net.spec));
  ASSIGN_OR_RETURN(std::unique_ptr<SparseDataset> data,
                   SparseDataset::FromText("points.txt", points, {}));
  std::unique_ptr<NetReference> made(
      new NetReference(net.chapter, std::move(network), std::move(data)));
  const ModelSpec& spec = made->spec();
  ASSIGN_OR_RETURN(SlotMap inputs, SlotMap::Deal(spec.tables[0].num_slots, kCourseShards));
  ASSIGN_OR_RETURN(SlotMap labels, SlotMap::Deal(spec.tables.back().num_slots, kCourseShards));
  ASSIGN_OR_RETURN(made->preparer_,
                   BatchPreparer::Create(made->network_, std::move(inputs), std::move(labels),
                                         {.seed = spec.order_seed(), .idf = {}}));
  JobSpec& job = made->job_;
  job.job = net.job;
  job.model = spec.name;
  job.samples_per_epoch = made->data_->num_points();
  job.chunk_samples = spec.training.chunk_samples;
  job.max_epochs = spec.training.max_epochs;
  job.patience_epochs = spec.training.patience_epochs;
  job.seed = spec.order_seed();
  job.training = spec.training;
  job.rates = RatesOf(spec);
  return made;
}

absl::StatusOr<PreparedBatch> NetReference::Batch(int64_t epoch, int64_t first,
                                                  int64_t count) const {
  const EpochOrder order(data_->num_points(), job_.seed, epoch);
  std::vector<int64_t> points;
  for (int64_t i = 0; i < count; ++i) points.push_back(order.PointAt(first + i));
  ASSIGN_OR_RETURN(PreparedBatch batch,
                   preparer_->Prepare(*data_, BatchUse::kTraining, epoch, points));
  const int64_t before = epoch * job_.samples_per_epoch + first;
  batch.epoch = epoch;
  batch.job_step = Step(before / spec().training.batch_size + 1);
  return batch;
}

}  // namespace dslide::cli
