#include "client/cli/source/served_dataset_client.h"

#include <grpcpp/channel.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/cli/cluster/connect.h"
#include "client/cpp/unary_call.h"
#include "core/base/ids.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"

namespace dslide::cli {
namespace {

constexpr char kScheme[] = "grpc://";
constexpr char kRemedy[] = "is dslide data serve running there?";

using Numbers = google::protobuf::RepeatedField<uint32_t>;

int64_t Sum(const Numbers& counts) {
  int64_t sum = 0;
  for (const uint32_t count : counts) sum += count;
  return sum;
}

// Ids of each point strictly ascend and are below `limit`.
absl::Status CheckIds(const char* what, const Numbers& counts, const Numbers& ids, int64_t limit) {
  if (Sum(counts) != ids.size()) {
    return absl::InternalError(
        absl::StrCat(ids.size(), " ", what, " where the counts say ", Sum(counts)));
  }
  int at = 0;
  for (const uint32_t count : counts) {
    for (uint32_t i = 0; i < count; ++i, ++at) {
      if (ids[at] >= limit || (i > 0 && ids[at] <= ids[at - 1])) {
        return absl::InternalError(absl::StrCat(
            what, "[", at, "] is ", ids[at], ", must ascend within a point and be below ", limit));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSparsePoints(const v1::SparsePoints& points, int64_t max_points,
                               int64_t num_features, int64_t num_labels) {
  const int count = points.feature_counts_size();
  if (count < 1 || count > max_points || points.label_counts_size() != count) {
    return absl::InternalError(absl::StrCat(count, " points with features and ",
                                            points.label_counts_size(), " with labels, where 1 to ",
                                            max_points, " may come"));
  }
  RETURN_IF_ERROR(CheckIds("features", points.feature_counts(), points.features(), num_features));
  RETURN_IF_ERROR(CheckIds("labels", points.label_counts(), points.labels(), num_labels));
  if (points.values_size() != 0 && points.values_size() != points.features_size()) {
    return absl::InternalError(
        absl::StrCat(points.values_size(), " values for ", points.features_size(), " features"));
  }
  if (!std::all_of(points.values().begin(), points.values().end(),
                   [](float value) { return std::isfinite(value); })) {
    return absl::InternalError("a value that is no finite number");
  }
  return absl::OkStatus();
}

absl::string_view NameOf(const std::vector<std::string>& names, int64_t id) {
  if (id < 0 || id >= static_cast<int64_t>(names.size())) return "";
  return names[static_cast<size_t>(id)];
}

absl::Status WrongAnswer(const std::string& url, const char* call, absl::string_view problem) {
  return absl::InternalError(absl::StrCat(url, ": ", call, " answered ", problem));
}

}  // namespace

absl::StatusOr<ServedDataOptions> ServedDataOf(const GlobalOptions& global) {
  ASSIGN_OR_RETURN(const absl::Duration timeout, global.Timeout());
  return ServedDataOptions{.channels = global.Channels(), .timeout = timeout};
}

absl::Status AppendPoints(const v1::SparsePoints& points, int64_t max_points, int64_t num_features,
                          int64_t num_labels, SparseBatch* batch) {
  RETURN_IF_ERROR(CheckSparsePoints(points, max_points, num_features, num_labels));
  int feature = 0;
  int label = 0;
  for (int p = 0; p < points.feature_counts_size(); ++p) {
    for (uint32_t i = 0; i < points.feature_counts(p); ++i, ++feature) {
      batch->features.emplace_back(points.features(feature));
      batch->values.push_back(points.values().empty() ? 1.0f : points.values(feature));
    }
    for (uint32_t i = 0; i < points.label_counts(p); ++i, ++label) {
      batch->labels.emplace_back(points.labels(label));
    }
    batch->FinishSample();
  }
  return absl::OkStatus();
}

bool IsServedData(absl::string_view path) { return absl::StartsWith(path, kScheme); }

absl::StatusOr<std::unique_ptr<ServedDataset>> ServedDataset::Open(
    const std::string& url, const ServedDataOptions& options) {
  const absl::string_view rest = absl::StripPrefix(url, kScheme);
  const size_t slash = rest.find('/');
  if (!IsServedData(url) || slash == absl::string_view::npos || slash == 0 ||
      slash + 1 == rest.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        url, ": must be grpc://HOST:PORT/data, or /eval, of a running dslide data serve"));
  }
  const std::string address(rest.substr(0, slash));
  RETURN_IF_ERROR(AwaitHost(address));
  std::unique_ptr<ServedDataset> data(new ServedDataset(
      url, std::string(rest.substr(slash + 1)), absl::StrCat("the data at ", address), options));
  ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel,
                   NetworkChannels(options.channels)(address));
  KeepCallbackQueue();
  data->stub_ = v1::DataService::NewStub(channel);
  ASSIGN_OR_RETURN(data->about_, data->Call("GetDataset", &v1::DataService::Stub::GetDataset,
                                            v1::GetDatasetRequest()));
  const v1::GetDatasetResponse& about = data->about_;
  if (about.num_points() < 1 || std::min(about.num_features(), about.num_labels()) < 1 ||
      std::max(about.num_features(), about.num_labels()) > kMaxTableRows ||
      about.max_points() < 1) {
    return WrongAnswer(url, "GetDataset", "with sizes that no data has");
  }
  ASSIGN_OR_RETURN(data->features_, data->List("ListFeatures", &v1::DataService::Stub::ListFeatures,
                                               about.num_features(), about.has_feature_names()));
  ASSIGN_OR_RETURN(data->labels_, data->List("ListLabels", &v1::DataService::Stub::ListLabels,
                                             about.num_labels(), about.has_label_names()));
  return data;
}

template <typename Request, typename Response>
absl::StatusOr<Response> ServedDataset::Call(const char* name, Method<Request, Response> method,
                                             Request request) const {
  request.set_dataset(dataset_);
  if constexpr (requires { request.set_fingerprint(0); }) {
    request.set_fingerprint(about_.fingerprint());
  }
  const UnaryCall call = {.peer = peer_,
                          .remedy = kRemedy,
                          .name = name,
                          .method = WireMethod::kRead,
                          .counters = nullptr,
                          .timeout = options_.timeout,
                          .retry = {},
                          .repeat = true,
                          .handshake_patience = about_.num_points() > 0 ? absl::InfiniteDuration()
                                                                        : kHandshakePatience};
  absl::StatusOr<Response> response = RunUnaryCall<Request, Response>(
      call, request, [&](grpc::ClientContext* context, Response* answer) {
        return (stub_.get()->*method)(context, request, answer);
      });
  // What was trained until now is of other points.
  if (ReasonOf(response.status()) == reason::kDataDiffers) {
    return absl::DataLossError(response.status().message());
  }
  return response;
}

template <typename Request, typename Response>
absl::StatusOr<ServedDataset::Ids> ServedDataset::List(const char* name,
                                                       Method<Request, Response> method,
                                                       int64_t count, bool named) const {
  Ids ids;
  while (static_cast<int64_t>(ids.points.size()) < count) {
    const auto have = static_cast<int64_t>(ids.points.size());
    Request request;
    request.set_first(have);
    ASSIGN_OR_RETURN(const Response response, Call(name, method, std::move(request)));
    const v1::IdPage& page = response.page();
    const int got = page.points_size();
    if (got < 1 || got > count - have || page.names_size() != (named ? got : 0) ||
        std::any_of(page.points().begin(), page.points().end(),
                    [&](int64_t points) { return points < 0 || points > about_.num_points(); })) {
      return WrongAnswer(url_, name, "with ids or counts that the data does not have");
    }
    ids.points.insert(ids.points.end(), page.points().begin(), page.points().end());
    ids.names.insert(ids.names.end(), page.names().begin(), page.names().end());
  }
  return ids;
}

absl::Status ServedDataset::ReadSamples(absl::Span<const int64_t> points,
                                        SparseBatch* batch) const {
  batch->Clear();
  absl::Status status = ReadAll(points, batch);
  if (!status.ok()) batch->Clear();
  return status;
}

absl::Status ServedDataset::ReadAll(absl::Span<const int64_t> points, SparseBatch* batch) const {
  for (const int64_t point : points) {
    if (point >= 0 && point < num_points()) continue;
    return absl::OutOfRangeError(
        absl::StrCat(url_, " has no point ", point, ": it has ", num_points()));
  }
  while (!points.empty()) {
    const absl::Span<const int64_t> wanted =
        points.subspan(0, static_cast<size_t>(about_.max_points()));
    v1::ReadPointsRequest request;
    request.mutable_points()->Add(wanted.begin(), wanted.end());
    ASSIGN_OR_RETURN(const v1::ReadPointsResponse response,
                     Call("ReadPoints", &v1::DataService::Stub::ReadPoints, std::move(request)));
    const int64_t before = batch->samples();
    if (const absl::Status read =
            AppendPoints(response.points(), static_cast<int64_t>(wanted.size()), num_features(),
                         num_labels(), batch);
        !read.ok()) {
      return WrongAnswer(url_, "ReadPoints", read.message());
    }
    points.remove_prefix(static_cast<size_t>(batch->samples() - before));
  }
  return absl::OkStatus();
}

absl::string_view ServedDataset::FeatureName(int64_t feature) const {
  return NameOf(features_.names, feature);
}

absl::string_view ServedDataset::LabelName(int64_t label) const {
  return NameOf(labels_.names, label);
}

}  // namespace dslide::cli
