#include "client/cli/serve/data_service.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/base/version.h"
#include "core/protocol/reason_words.h"
#include "services/common/unary.h"

namespace dslide::cli {
namespace {

constexpr int64_t kMaxPoints = 4096;
// Of an answer; half of what a message may hold.
constexpr int64_t kAnswerBytes = 2 << 20;
// Points that are read at a time: what does not fit into the answer was read in vain.
constexpr int64_t kPointsPerRead = 64;
constexpr int64_t kVarintBytes = 5;  // of 32 bits, at most
constexpr int64_t kCountBytes = 10;  // of a number of 64 bits, at most

absl::Status OutOfRange(const std::string& field, int64_t value, int64_t limit) {
  return StatusWithReason(absl::StatusCode::kInvalidArgument, reason::kOutOfRange,
                          absl::StrCat(field, " is ", value, ", must be in [0, ", limit, ")"));
}

// counts: [ids]. name_of(id): "" where there are no names.
template <typename NameOf>
absl::Status FillPage(int64_t first, absl::Span<const int64_t> counts, const NameOf& name_of,
                      v1::IdPage& page) {
  const auto ids = static_cast<int64_t>(counts.size());
  if (first < 0 || first >= ids) return OutOfRange("first", first, ids);
  const bool named = !name_of(0).empty();
  int64_t bytes = 0;
  for (int64_t id = first; id < ids; ++id) {
    const absl::string_view name = named ? name_of(id) : absl::string_view();
    bytes += 2 * kCountBytes + static_cast<int64_t>(name.size());
    if (id > first && bytes > kAnswerBytes) break;
    page.add_points(counts[static_cast<size_t>(id)]);
    if (named) page.add_names(name.data(), name.size());
  }
  return absl::OkStatus();
}

absl::Status CheckPoints(const v1::ReadPointsRequest& request, int64_t num_points) {
  const int count = request.points_size();
  if (count < 1 || count > kMaxPoints) {
    return StatusWithReason(
        absl::StatusCode::kInvalidArgument, reason::kOutOfRange,
        absl::StrCat("points has ", count, " entries, must have 1 to ", kMaxPoints));
  }
  for (int i = 0; i < count; ++i) {
    const int64_t point = request.points(i);
    if (point < 0 || point >= num_points) {
      return OutOfRange(absl::StrCat("points[", i, "]"), point, num_points);
    }
  }
  return absl::OkStatus();
}

void AppendSample(const SparseBatch& from, int64_t sample, SparseBatch& batch) {
  const auto append = [](const auto& part, auto& whole) {
    whole.insert(whole.end(), part.begin(), part.end());
  };
  append(from.FeaturesOf(sample), batch.features);
  append(from.ValuesOf(sample), batch.values);
  append(from.LabelsOf(sample), batch.labels);
  batch.FinishSample();
}

// As many of `points` as fit into an answer.
absl::Status ReadFirst(const Dataset& data, absl::Span<const int64_t> points, SparseBatch& batch) {
  SparseBatch some;
  int64_t bytes = 0;
  while (!points.empty()) {
    const absl::Span<const int64_t> next = points.subspan(0, kPointsPerRead);
    RETURN_IF_ERROR(data.ReadSamples(next, &some));
    for (int64_t s = 0; s < some.samples(); ++s) {
      const int64_t more = MaxWireBytes(some, s);
      if (batch.samples() == 0 && more > 2 * kAnswerBytes) {
        return StatusWithReason(
            absl::StatusCode::kResourceExhausted, reason::kTooLarge,
            absl::StrCat(data.path(), ": point ", next[static_cast<size_t>(s)], " with ",
                         some.FeaturesOf(s).size(), " features does not fit into a message"));
      }
      bytes += more;
      if (batch.samples() > 0 && bytes > kAnswerBytes) return absl::OkStatus();
      AppendSample(some, s, batch);
    }
    points.remove_prefix(next.size());
  }
  return absl::OkStatus();
}

}  // namespace

int64_t MaxWireBytes(const SparseBatch& batch, int64_t sample) {
  const auto features = static_cast<int64_t>(batch.FeaturesOf(sample).size());
  const auto labels = static_cast<int64_t>(batch.LabelsOf(sample).size());
  constexpr auto kValueBytes = static_cast<int64_t>(sizeof(float));
  return (2 + features + labels) * kVarintBytes + features * kValueBytes;
}

v1::SparsePoints ToWire(const SparseBatch& batch) {
  v1::SparsePoints points;
  points.mutable_features()->Reserve(static_cast<int>(batch.features.size()));
  for (int64_t s = 0; s < batch.samples(); ++s) {
    points.add_feature_counts(static_cast<uint32_t>(batch.FeaturesOf(s).size()));
    points.add_label_counts(static_cast<uint32_t>(batch.LabelsOf(s).size()));
  }
  for (const RowId feature : batch.features) points.add_features(feature.value());
  for (const RowId label : batch.labels) points.add_labels(label.value());
  const bool all_one = std::all_of(batch.values.begin(), batch.values.end(),
                                   [](float value) { return value == 1.0f; });
  if (!all_one) points.mutable_values()->Add(batch.values.begin(), batch.values.end());
  return points;
}

DataServiceImpl::DataServiceImpl(Metrics& metrics)
    : rpc_metrics_(metrics, "data", kDataServiceName) {}

void DataServiceImpl::Open(ServedDatasets datasets) {
  auto shared = std::make_shared<const ServedDatasets>(std::move(datasets));
  const absl::MutexLock lock(&mu_);
  datasets_ = std::move(shared);
}

std::shared_ptr<const ServedDatasets> DataServiceImpl::datasets() const {
  const absl::MutexLock lock(&mu_);
  return datasets_;
}

absl::StatusOr<const ServedData*> DataServiceImpl::Find(const std::string& name) const {
  const std::shared_ptr<const ServedDatasets> datasets = this->datasets();
  if (datasets == nullptr) {
    return absl::UnavailableError("the data is being read: ask again later");
  }
  const auto found = datasets->find(name);
  if (found != datasets->end()) return &found->second;
  std::string known;
  for (const auto& [dataset, served] : *datasets) {
    absl::StrAppend(&known, known.empty() ? "" : " and ", "\"", dataset, "\"");
  }
  return StatusWithReason(absl::StatusCode::kNotFound, reason::kUnknownDataset,
                          absl::StrCat("no data set is called \"", name, "\" here; there is ",
                                       known, " (--data and --eval of dslide data serve)"));
}

absl::StatusOr<const ServedData*> DataServiceImpl::Find(const std::string& name,
                                                        uint64_t fingerprint) const {
  ASSIGN_OR_RETURN(const ServedData* const served, Find(name));
  if (served->data->Fingerprint() == fingerprint) return served;
  return StatusWithReason(
      absl::StatusCode::kFailedPrecondition, reason::kDataDiffers,
      absl::StrCat("\"", name,
                   "\" is other data than the caller has asked about: the server was "
                   "started anew with another file; begin again"));
}

grpc::Status DataServiceImpl::GetDataset(grpc::ServerContext* context,
                                         const v1::GetDatasetRequest* request,
                                         v1::GetDatasetResponse* response) {
  return RunUnary(rpc_metrics_.method("GetDataset"), *context, *request, response,
                  [&]() -> absl::Status {
                    ASSIGN_OR_RETURN(const ServedData* const served, Find(request->dataset()));
                    const Dataset& data = *served->data;
                    response->set_num_points(data.num_points());
                    response->set_num_features(data.num_features());
                    response->set_num_labels(data.num_labels());
                    response->set_fingerprint(data.Fingerprint());
                    response->set_has_feature_names(!data.FeatureName(0).empty());
                    response->set_has_label_names(!data.LabelName(0).empty());
                    response->set_tokenizer(served->tokenizer);
                    response->set_max_points(kMaxPoints);
                    response->set_version(Version());
                    return absl::OkStatus();
                  });
}

grpc::Status DataServiceImpl::ListFeatures(grpc::ServerContext* context,
                                           const v1::ListFeaturesRequest* request,
                                           v1::ListFeaturesResponse* response) {
  return RunUnary(
      rpc_metrics_.method("ListFeatures"), *context, *request, response, [&]() -> absl::Status {
        ASSIGN_OR_RETURN(const ServedData* const served,
                         Find(request->dataset(), request->fingerprint()));
        return FillPage(
            request->first(), served->data->DocumentFrequency(),
            [&](int64_t id) { return served->data->FeatureName(id); }, *response->mutable_page());
      });
}

grpc::Status DataServiceImpl::ListLabels(grpc::ServerContext* context,
                                         const v1::ListLabelsRequest* request,
                                         v1::ListLabelsResponse* response) {
  return RunUnary(
      rpc_metrics_.method("ListLabels"), *context, *request, response, [&]() -> absl::Status {
        ASSIGN_OR_RETURN(const ServedData* const served,
                         Find(request->dataset(), request->fingerprint()));
        return FillPage(
            request->first(), served->label_points,
            [&](int64_t id) { return served->data->LabelName(id); }, *response->mutable_page());
      });
}

grpc::Status DataServiceImpl::ReadPoints(grpc::ServerContext* context,
                                         const v1::ReadPointsRequest* request,
                                         v1::ReadPointsResponse* response) {
  return RunUnary(rpc_metrics_.method("ReadPoints"), *context, *request, response,
                  [&]() -> absl::Status {
                    ASSIGN_OR_RETURN(const ServedData* const served,
                                     Find(request->dataset(), request->fingerprint()));
                    RETURN_IF_ERROR(CheckPoints(*request, served->data->num_points()));
                    SparseBatch batch;
                    RETURN_IF_ERROR(ReadFirst(*served->data, request->points(), batch));
                    *response->mutable_points() = ToWire(batch);
                    return absl::OkStatus();
                  });
}

}  // namespace dslide::cli
