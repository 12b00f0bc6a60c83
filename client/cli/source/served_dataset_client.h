// A data set that a server of data has: points come from it when they are read.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/cli/console/global_options.h"
#include "client/cpp/channel_factory.h"
#include "core/engine/data/dataset.h"
#include "dslide/v1/data.grpc.pb.h"

namespace dslide::cli {

struct ServedDataOptions {
  ChannelOptions channels = {};
  // How long the server may be away, or read its own data still. Also of each call.
  absl::Duration timeout = absl::Seconds(30);
};

// As every call of a command. Errors: InvalidArgument naming the flag.
absl::StatusOr<ServedDataOptions> ServedDataOf(const GlobalOptions& global);

// Whether `path` is of the form "grpc://HOST:PORT/data".
bool IsServedData(absl::string_view path);

// Appends the points to *batch. Errors: Internal naming what is wrong, with *batch as it was:
// counts that do not add up, more than max_points, ids out of range or not ascending, values that
// are not finite.
absl::Status AppendPoints(const v1::SparsePoints& points, int64_t max_points, int64_t num_features,
                          int64_t num_labels, SparseBatch* batch);

// Resident are names and two counts of 8 bytes for each feature and label; no points.
//
// Thread safety: as Dataset; calls run side by side.
class ServedDataset final : public Dataset {
 public:
  // url: "grpc://HOST:PORT/data", or "/eval" for the data to test with. Errors: InvalidArgument
  // naming the URL; NotFound when the server has no such data; those of the connection.
  static absl::StatusOr<std::unique_ptr<ServedDataset>> Open(const std::string& url,
                                                             const ServedDataOptions& options);

  const std::string& path() const override { return url_; }
  int64_t num_points() const override { return about_.num_points(); }
  int64_t num_features() const override { return about_.num_features(); }
  int64_t num_labels() const override { return about_.num_labels(); }
  // Errors: OutOfRange; DataLoss when the server has other data by now; those of the connection.
  absl::Status ReadSamples(absl::Span<const int64_t> points, SparseBatch* batch) const override;
  absl::string_view FeatureName(int64_t feature) const override;
  absl::string_view LabelName(int64_t label) const override;
  absl::Span<const int64_t> DocumentFrequency() const override { return features_.points; }
  absl::Span<const int64_t> LabelFrequency() const override { return labels_.points; }
  uint64_t Fingerprint() const override { return about_.fingerprint(); }

  // tokenizer.json of the data; "": nobody knows how texts were cut.
  const std::string& tokenizer() const { return about_.tokenizer(); }

 private:
  struct Ids {
    std::vector<int64_t> points;     // [ids]
    std::vector<std::string> names;  // [ids], or none
  };
  template <typename Request, typename Response>
  using Method = grpc::Status (v1::DataService::Stub::*)(grpc::ClientContext*, const Request&,
                                                         Response*);

  ServedDataset(std::string url, std::string dataset, std::string peer, ServedDataOptions options)
      : url_(std::move(url)),
        dataset_(std::move(dataset)),
        peer_(std::move(peer)),
        options_(std::move(options)) {}

  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(const char* name, Method<Request, Response> method,
                                Request request) const;
  template <typename Request, typename Response>
  absl::StatusOr<Ids> List(const char* name, Method<Request, Response> method, int64_t count,
                           bool named) const;
  absl::Status ReadAll(absl::Span<const int64_t> points, SparseBatch* batch) const;

  const std::string url_;
  const std::string dataset_;
  const std::string peer_;  // for errors
  const ServedDataOptions options_;
  std::unique_ptr<v1::DataService::Stub> stub_;  // constant after Open
  v1::GetDatasetResponse about_;                 // constant after Open
  Ids features_;                                 // constant after Open
  Ids labels_;                                   // constant after Open
};

}  // namespace dslide::cli
