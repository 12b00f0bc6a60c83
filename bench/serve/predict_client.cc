#include "bench/serve/predict_client.h"

#include <grpcpp/grpcpp.h>

#include "core/base/crc32c.h"
#include "core/spec/model_spec.h"

namespace dslide::bench {

PredictClient PredictClient::Open(cli::PredictServer& server) {
  const ModelSpec spec = server.spec();
  const TableSpec* const head = spec.FindRole(TableRole::kHead);
  PredictClient client;
  if (head == nullptr || spec.FindRole(TableRole::kMemory) != nullptr) {
    client.head_.rows = spec.num_labels();
  } else {
    const bool half = head->precision != RowPrecision::kF32;
    client.head_ = {
        .rows = head->rows, .dim = head->dim, .bytes = head->rows * head->dim * (half ? 2 : 4)};
  }
  client.stub_ = v1::PredictService::NewStub(
      grpc::CreateChannel(server.runtime().address(), grpc::InsecureChannelCredentials()));
  return client;
}

absl::StatusOr<PredictAnswer> PredictClient::Predict(const SparseBatch& points, int64_t first,
                                                     int64_t batch, int64_t k,
                                                     v1::PredictMode mode) const {
  v1::PredictRequest request;
  request.set_top_k(static_cast<uint32_t>(k));
  request.set_mode(mode);
  for (int64_t i = first; i < first + batch; ++i) {
    v1::SparseFeatures* const features = request.add_queries()->mutable_features();
    for (const RowId id : points.FeaturesOf(i)) features->add_ids(id.value());
    for (const float value : points.ValuesOf(i)) features->add_values(value);
  }
  grpc::ClientContext context;
  v1::PredictResponse response;
  const grpc::Status status = stub_->Predict(&context, request, &response);
  if (!status.ok()) return absl::UnknownError(status.error_message());
  PredictAnswer answer;
  answer.exact = true;
  answer.checksum = ExtendCrc32c(0, response.SerializeAsString());
  for (const v1::PredictResult& result : response.results()) {
    std::vector<uint32_t>& labels = answer.labels.emplace_back();
    for (const v1::PredictedLabel& label : result.labels()) labels.push_back(label.id());
    answer.scored_rows.push_back(result.scored_rows());
    answer.exact = answer.exact && result.mode() == v1::PREDICT_MODE_EXACT;
  }
  return answer;
}

absl::Status PredictClient::Describe() const {
  grpc::ClientContext context;
  v1::GetModelResponse response;
  const grpc::Status status = stub_->GetModel(&context, v1::GetModelRequest(), &response);
  return status.ok() ? absl::OkStatus() : absl::UnknownError(status.error_message());
}

}  // namespace dslide::bench
