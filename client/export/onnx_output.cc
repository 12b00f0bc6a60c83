#include "client/export/onnx_output.h"

#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/export/onnx_message.h"
#include "client/export/positioned_file.h"
#include "core/base/bfloat16.h"
#include "core/base/status_macros.h"
#include "core/base/version.h"
#include "core/engine/data/file_output.h"
#include "core/spec/retired_labels.h"
#include "core/spec/table_rows.h"

namespace dslide {
namespace {

// Field numbers of onnx.proto.
namespace model_field {
constexpr int kIrVersion = 1, kProducer = 2, kProducerVersion = 3, kGraph = 7, kOpset = 8;
}
namespace graph_field {
constexpr int kNode = 1, kName = 2, kInitializer = 5, kInput = 11, kOutput = 12;
}
namespace node_field {
constexpr int kInput = 1, kOutput = 2, kOpType = 4, kAttribute = 5;
}
namespace tensor_field {
constexpr int kDims = 1, kType = 2, kName = 8, kRawData = 9;
}

constexpr int64_t kIrVersion = 8;
constexpr int64_t kOpset = 13;
constexpr int64_t kFloat = 1, kInt64 = 7, kBFloat16 = 16;  // TensorProto.DataType
constexpr int64_t kIntAttribute = 2;                       // AttributeProto.AttributeType
// A message of protobuf is smaller than 2 GiB; some MB are for what is no weight.
constexpr int64_t kMostOnnxBytes = (int64_t{1} << 31) - (int64_t{16} << 20);

struct OnnxTensor {
  std::string name;
  int64_t type = kFloat;
  std::vector<int64_t> dims;
  std::string bytes;

  OnnxMessage Head() const {
    OnnxMessage head;
    for (const int64_t dim : dims) head.Number(tensor_field::kDims, dim);
    head.Number(tensor_field::kType, type).Bytes(tensor_field::kName, name);
    return head.BytesHead(tensor_field::kRawData, static_cast<int64_t>(bytes.size()));
  }
};

template <typename T>
OnnxTensor Constant(const std::string& name, int64_t type, std::vector<int64_t> dims,
                    const std::vector<T>& values) {
  return {name,
          type,
          std::move(dims),
          {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)}};
}

// A graph that is put together node by node.
class OnnxGraph {
 public:
  // Returns the name of the node's only output.
  std::string Node(const std::string& type, const std::vector<std::string>& inputs,
                   const std::vector<std::pair<std::string, int64_t>>& attributes = {},
                   std::vector<std::string> outputs = {}) {
    if (outputs.empty()) outputs = {absl::StrCat("v", ++values_)};
    OnnxMessage node;
    for (const std::string& input : inputs) node.Bytes(node_field::kInput, input);
    for (const std::string& output : outputs) node.Bytes(node_field::kOutput, output);
    node.Bytes(node_field::kOpType, type);
    for (const auto& [name, value] : attributes) {
      OnnxMessage attribute;
      attribute.Bytes(1, name).Number(3, value).Number(20, kIntAttribute);
      node.Message(node_field::kAttribute, attribute);
    }
    nodes_.Message(graph_field::kNode, node);
    return outputs.front();
  }

  void Value(int field, const std::string& name, int64_t type, const std::string& second,
             int64_t second_size) {
    OnnxMessage batch;
    batch.Bytes(2, "batch");
    OnnxMessage side;
    if (second_size > 0) {
      side.Number(1, second_size);
    } else {
      side.Bytes(2, second);
    }
    OnnxMessage shape;
    shape.Message(1, batch).Message(1, side);
    OnnxMessage tensor;
    tensor.Number(1, type).Message(2, shape);
    OnnxMessage type_message;
    type_message.Message(1, tensor);
    OnnxMessage value;
    value.Bytes(1, name).Message(2, type_message);
    values_message_.Message(field, value);
  }

  const OnnxMessage& nodes() const { return nodes_; }
  const OnnxMessage& values() const { return values_message_; }

 private:
  int values_ = 0;
  OnnxMessage nodes_;
  OnnxMessage values_message_;
};

class OnnxOutput final : public TensorOutput {
 public:
  OnnxOutput(OnnxOptions options, const ModelSpec& spec, std::vector<TensorInfo> tensors)
      : options_(std::move(options)), spec_(spec), infos_(std::move(tensors)) {
    for (const TensorInfo& info : infos_) {
      tensors_.push_back({.name = info.name, .type = kFloat, .dims = info.shape, .bytes = {}});
    }
  }

  absl::Status Append(size_t tensor, absl::string_view bytes) override {
    if (!IsNeeded(infos_[tensor])) return absl::OkStatus();
    std::string& to = tensors_[tensor].bytes;
    if (infos_[tensor].type != TensorType::kBf16) {
      to.append(bytes.data(), bytes.size());
      return absl::OkStatus();
    }
    for (size_t i = 0; i < bytes.size(); i += sizeof(BFloat16)) {
      BFloat16 value;
      std::memcpy(&value, bytes.data() + i, sizeof(value));
      const float wide = ToFloat(value);
      to.append(reinterpret_cast<const char*>(&wide), sizeof(wide));
    }
    return absl::OkStatus();
  }

  absl::Status Commit() override {
    std::vector<OnnxTensor> initializers;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (IsNeeded(infos_[i])) initializers.push_back(std::move(tensors_[i]));
    }
    RETURN_IF_ERROR(LeaveOutRetiredLabels(initializers));
    OnnxGraph graph;
    std::string hidden = Input(graph, initializers);
    for (const TableSpec& table : spec_.tables) {
      if (table.role == TableRole::kEmbedding) continue;
      const bool last = table.role == TableRole::kHead;
      if (last && spec_.activations == ActivationType::kBf16) {
        hidden = graph.Node("Cast", {hidden}, {{"to", kBFloat16}});
        hidden = graph.Node("Cast", {hidden}, {{"to", kFloat}});
      }
      hidden = graph.Node("Gemm", {hidden, table.name + ".weight", table.name + ".bias"},
                          {{"transB", 1}});
      if (!last) hidden = graph.Node("Relu", {hidden});
    }
    initializers.push_back(Constant("k", kInt64, {1}, std::vector<int64_t>{options_.top_k}));
    graph.Node("TopK", {hidden, "k"}, {}, {"scores", "labels"});
    graph.Value(graph_field::kInput, "feature_ids", kInt64, "features", 0);
    graph.Value(graph_field::kInput, "values", kFloat, "features", 0);
    graph.Value(graph_field::kOutput, "scores", kFloat, "", options_.top_k);
    graph.Value(graph_field::kOutput, "labels", kInt64, "", options_.top_k);
    return Write(graph, initializers);
  }

 private:
  bool Transforms() const { return spec_.training.transform == InputTransform::kTfIdf; }

  bool IsNeeded(const TensorInfo& info) const {
    if (info.name == "names.idf") return Transforms();
    for (const TableSpec& table : spec_.tables) {
      if (info.name == table.name + ".weight" || info.name == table.name + ".bias") return true;
    }
    return false;
  }

  // Below every other label, whatever the point: TopK finds enough of those.
  absl::Status LeaveOutRetiredLabels(std::vector<OnnxTensor>& tensors) const {
    ASSIGN_OR_RETURN(const RetiredLabels retired, RetiredLabels::Parse(spec_.retired_labels));
    const std::string bias = spec_.FindRole(TableRole::kHead)->name + ".bias";
    constexpr float kNever = -std::numeric_limits<float>::infinity();
    for (OnnxTensor& tensor : tensors) {
      if (tensor.name != bias) continue;
      for (const auto& [first, last] : retired.ranges()) {
        for (int64_t label = first; label <= last; ++label) {
          std::memcpy(tensor.bytes.data() + static_cast<size_t>(label) * sizeof(kNever), &kNever,
                      sizeof(kNever));
        }
      }
    }
    return absl::OkStatus();
  }

  // The values as the model's data has them (core/engine/data/transform.h).
  std::string TransformedValues(OnnxGraph& graph, std::vector<OnnxTensor>& constants) const {
    std::string values = "values";
    if (spec_.training.transform == InputTransform::kRaw) return values;
    if (Transforms()) {
      constants.push_back(Constant("one", kFloat, {}, std::vector<float>{1.0f}));
      const std::string size = graph.Node("Abs", {values});
      const std::string damped = graph.Node(
          "Mul",
          {graph.Node("Sign", {values}),
           graph.Node("Add", {graph.Node("Log", {graph.Node("Max", {size, "one"})}), "one"})});
      values = graph.Node("Where", {graph.Node("Less", {size, "one"}), values, damped});
      values = graph.Node("Mul", {values, graph.Node("Gather", {"names.idf", "feature_ids"})});
    }
    constants.push_back(Constant("zero", kFloat, {}, std::vector<float>{0.0f}));
    constants.push_back(Constant("unit", kFloat, {}, std::vector<float>{1.0f}));
    constants.push_back(Constant("sides", kInt64, {1}, std::vector<int64_t>{1}));
    const std::string sum =
        graph.Node("ReduceSum", {graph.Node("Mul", {values, values}), "sides"}, {{"keepdims", 1}});
    // A point whose values are all 0 stays as it is.
    const std::string length = graph.Node(
        "Where", {graph.Node("Equal", {sum, "zero"}), "unit", graph.Node("Sqrt", {sum})});
    return graph.Node("Div", {values, length});
  }

  std::string Input(OnnxGraph& graph, std::vector<OnnxTensor>& constants) const {
    const TableSpec& table = *spec_.FindRole(TableRole::kEmbedding);
    const std::string weight = table.name + ".weight";
    const std::string values = TransformedValues(graph, constants);
    constants.push_back(Constant("middle", kInt64, {1}, std::vector<int64_t>{1}));
    if (table.bias_row) {
      constants.push_back(Constant("bias_row", kInt64, {1}, std::vector<int64_t>{BiasRow(table)}));
    }
    std::string ids = "feature_ids";
    if (table.bias_row && table.base_rows > 0) {
      // Features that the table was given later have their rows behind the bias row.
      const std::string before = graph.Node("Less", {ids, "bias_row"});
      ids = graph.Node("Add",
                       {ids, graph.Node("Cast", {graph.Node("Not", {before})}, {{"to", kInt64}})});
    }
    const std::string rows = graph.Node("Gather", {weight, ids});
    std::string hidden = graph.Node(
        "Squeeze",
        {graph.Node("MatMul", {graph.Node("Unsqueeze", {values, "middle"}), rows}), "middle"});
    if (table.bias_row) {
      hidden = graph.Node("Add", {hidden, graph.Node("Gather", {weight, "bias_row"})});
    }
    return graph.Node("Relu", {hidden});
  }

  absl::Status Write(const OnnxGraph& graph, const std::vector<OnnxTensor>& initializers) const {
    OnnxMessage name;
    name.Bytes(graph_field::kName, "dslide");
    int64_t graph_bytes = name.size() + graph.nodes().size() + graph.values().size();
    std::vector<std::string> heads;
    for (const OnnxTensor& tensor : initializers) {
      const OnnxMessage head = tensor.Head();
      OnnxMessage outer;
      outer.BytesHead(graph_field::kInitializer,
                      head.size() + static_cast<int64_t>(tensor.bytes.size()));
      heads.push_back(absl::StrCat(outer.bytes(), head.bytes()));
      graph_bytes += static_cast<int64_t>(heads.back().size() + tensor.bytes.size());
    }
    OnnxMessage opset;
    opset.Bytes(1, "").Number(2, kOpset);
    OnnxMessage model;
    model.Number(model_field::kIrVersion, kIrVersion)
        .Bytes(model_field::kProducer, "dslide")
        .Bytes(model_field::kProducerVersion, Version())
        .Message(model_field::kOpset, opset)
        .BytesHead(model_field::kGraph, graph_bytes);
    ASSIGN_OR_RETURN(FileOutput file, FileOutput::Create(options_.path));
    for (const std::string& part :
         {model.bytes(), graph.nodes().bytes(), name.bytes(), graph.values().bytes()}) {
      RETURN_IF_ERROR(file.Append(part));
    }
    for (size_t i = 0; i < initializers.size(); ++i) {
      RETURN_IF_ERROR(file.Append(heads[i]));
      RETURN_IF_ERROR(file.Append(initializers[i].bytes));
    }
    return file.CommitDurably();
  }

  const OnnxOptions options_;
  const ModelSpec spec_;
  const std::vector<TensorInfo> infos_;
  std::vector<OnnxTensor> tensors_;  // [infos]
};

}  // namespace

absl::Status CheckOnnxModel(const ModelSpec& spec, const OnnxOptions& options) {
  for (const TableSpec& table : spec.tables) {
    if (IsRecordRole(table.role)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--format onnx: table ", table.name, " of model \"", spec.name, "\" is of role ",
          RoleName(table.role), ", which no ONNX operator computes; --format safetensors has all ",
          "of the model, and a network alone (dslide train --dim N) becomes a graph"));
    }
  }
  const TableSpec* const head = spec.FindRole(TableRole::kHead);
  if (head == nullptr || spec.FindRole(TableRole::kEmbedding) == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("--format onnx: model \"", spec.name, "\" has no embedding or no head"));
  }
  ASSIGN_OR_RETURN(const RetiredLabels retired, RetiredLabels::Parse(spec.retired_labels));
  const int64_t most = head->rows - retired.size();
  if (options.top_k >= 1 && options.top_k <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--top-k ", options.top_k, ": must be in [1, ", most, "]",
      retired.empty() ? "" : absl::StrCat(": ", retired.size(), " labels are retired")));
}

absl::StatusOr<std::unique_ptr<TensorOutput>> CreateOnnx(const OnnxOptions& options,
                                                         const ModelSpec& spec,
                                                         const std::vector<TensorInfo>& tensors) {
  RETURN_IF_ERROR(CheckOnnxModel(spec, options));
  RETURN_IF_ERROR(CheckReplaceable(options.path, options.overwrite));
  int64_t total = 0;
  bool has_idf = false;
  for (const TensorInfo& tensor : tensors) {
    total += tensor.elements() * 4;
    has_idf = has_idf || tensor.name == "names.idf";
  }
  if (spec.training.transform == InputTransform::kTfIdf && !has_idf) {
    return absl::InvalidArgumentError(
        "--format onnx: the model's values are tf-idf, whose weights are in the --model-dir of the "
        "training: name it");
  }
  if (total > kMostOnnxBytes) {
    return absl::InvalidArgumentError(absl::StrCat("--format onnx: the weights have ", total,
                                                   " bytes, an ONNX file holds ", kMostOnnxBytes,
                                                   ": use --format safetensors"));
  }
  RETURN_IF_ERROR(CheckRoomFor(options.path, total));
  return std::make_unique<OnnxOutput>(options, spec, tensors);
}

}  // namespace dslide
