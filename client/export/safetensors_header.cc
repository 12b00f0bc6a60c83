#include "client/export/safetensors_header.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace dslide {
namespace {

using Json = nlohmann::json;

constexpr int64_t kLengthBytes = 8;
constexpr char kMetadataKey[] = "__metadata__";
// Sides whose product cannot overflow once it is compared with the size of a file.
constexpr int64_t kMaxSide = int64_t{1} << 48;

constexpr std::pair<TensorType, const char*> kTypeNames[] = {{TensorType::kU8, "U8"},
                                                             {TensorType::kU32, "U32"},
                                                             {TensorType::kI64, "I64"},
                                                             {TensorType::kBf16, "BF16"},
                                                             {TensorType::kF32, "F32"}};

const char* NameOfType(TensorType type) {
  for (const auto& [known, name] : kTypeNames) {
    if (known == type) return name;
  }
  return "";
}

absl::Status Damaged(const std::string& file, absl::string_view why) {
  return absl::DataLossError(
      absl::StrCat(file, ": ", why, ": it is cut, damaged or no safetensors file"));
}

// A JSON object whose keys differ, at every depth: the parser would keep the last of equal ones.
class DistinctKeys {
 public:
  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) {
      seen_.resize(std::max<size_t>(seen_.size(), static_cast<size_t>(depth) + 2));
      seen_[static_cast<size_t>(depth) + 1].clear();
    }
    if (event == Json::parse_event_t::key) {
      const std::string key = parsed.get<std::string>();
      if (!seen_[static_cast<size_t>(depth)].insert(key).second) twice_ = key;
    }
    return true;
  }
  const std::string& twice() const { return twice_; }

 private:
  std::vector<std::set<std::string>> seen_;
  std::string twice_;
};

absl::StatusOr<std::vector<int64_t>> Numbers(const Json& json, int64_t most) {
  std::vector<int64_t> numbers;
  if (!json.is_array()) return absl::DataLossError("is no list");
  for (const Json& number : json) {
    if (!number.is_number_unsigned() || number.get<uint64_t>() > static_cast<uint64_t>(most)) {
      return absl::DataLossError(absl::StrCat("has ", number.dump()));
    }
    numbers.push_back(number.get<int64_t>());
  }
  return numbers;
}

absl::StatusOr<PlacedTensor> ParseTensor(const std::string& file, const std::string& name,
                                         const Json& json, int64_t data_begin, int64_t data_bytes) {
  const auto bad = [&](absl::string_view why) {
    return Damaged(file, absl::StrCat("tensor \"", name, "\" ", why));
  };
  if (!json.is_object() || !json.contains("dtype") || !json["dtype"].is_string() ||
      !json.contains("shape") || !json.contains("data_offsets") || json.size() != 3) {
    return bad("is not described by dtype, shape and data_offsets");
  }
  PlacedTensor tensor;
  tensor.info.name = name;
  const std::string type = json["dtype"].get<std::string>();
  const auto* const known = std::find_if(std::begin(kTypeNames), std::end(kTypeNames),
                                         [&](const auto& entry) { return type == entry.second; });
  if (known == std::end(kTypeNames)) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": tensor \"", name, "\" has dtype ", type,
                                                   ", of which dslide exports none"));
  }
  tensor.info.type = known->first;
  absl::StatusOr<std::vector<int64_t>> shape = Numbers(json["shape"], kMaxSide);
  if (!shape.ok()) return bad(absl::StrCat("has a shape that ", shape.status().message()));
  tensor.info.shape = *std::move(shape);
  const absl::StatusOr<std::vector<int64_t>> offsets = Numbers(json["data_offsets"], data_bytes);
  if (!offsets.ok() || offsets->size() != 2 || (*offsets)[0] > (*offsets)[1]) {
    return bad(absl::StrCat("lies at ", json["data_offsets"].dump(), ", there are ", data_bytes,
                            " bytes"));
  }
  const int64_t bytes = (*offsets)[1] - (*offsets)[0];
  int64_t wanted = BytesOf(tensor.info.type);
  for (const int64_t side : tensor.info.shape) {
    if (side > 0 && wanted > data_bytes / side) return bad("has a shape beyond the file");
    wanted *= side;
  }
  if (wanted != bytes) {
    return bad(absl::StrCat("has ", bytes, " bytes, its shape needs ", wanted));
  }
  tensor.begin = data_begin + (*offsets)[0];
  return tensor;
}

absl::Status CheckWithoutGaps(const std::string& file, const std::vector<PlacedTensor>& tensors,
                              int64_t data_begin, int64_t file_bytes) {
  int64_t end = data_begin;
  for (const PlacedTensor& tensor : tensors) {
    if (tensor.begin != end) {
      return Damaged(file, absl::StrCat("tensor \"", tensor.info.name, "\" begins at byte ",
                                        tensor.begin, ", the one before it ends at ", end));
    }
    end += tensor.info.bytes();
  }
  if (end == file_bytes) return absl::OkStatus();
  return Damaged(file,
                 absl::StrCat("it has ", file_bytes, " bytes, its tensors end at byte ", end));
}

}  // namespace

std::string EncodeTensorHeader(const std::vector<TensorInfo>& tensors,
                               const TensorMetadata& metadata) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!metadata.empty()) json[kMetadataKey] = metadata;
  int64_t offset = 0;
  for (const TensorInfo& tensor : tensors) {
    json[tensor.name] = {{"dtype", NameOfType(tensor.type)},
                         {"shape", tensor.shape},
                         {"data_offsets", {offset, offset + tensor.bytes()}}};
    offset += tensor.bytes();
  }
  std::string text = json.dump(-1, ' ', /*ensure_ascii=*/true);
  text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes, ' ');
  const uint64_t length = text.size();
  std::string header(kLengthBytes, '\0');
  std::memcpy(header.data(), &length, sizeof(length));
  return header + text;
}

absl::StatusOr<TensorHeader> ParseTensorHeader(const std::string& file, absl::string_view start,
                                               int64_t file_bytes) {
  uint64_t length = 0;
  if (start.size() < kLengthBytes) return Damaged(file, "it has no header");
  std::memcpy(&length, start.data(), sizeof(length));
  if (length > static_cast<uint64_t>(kMaxTensorHeaderBytes) ||
      length > start.size() - kLengthBytes) {
    return Damaged(file, absl::StrCat("its header is said to have ", length, " bytes"));
  }
  const absl::string_view text = start.substr(kLengthBytes, length);
  DistinctKeys keys;
  const Json json = Json::parse(
      text.data(), text.data() + text.size(),
      [&keys](int depth, Json::parse_event_t event, Json& parsed) {
        return keys(depth, event, parsed);
      },
      /*allow_exceptions=*/false);
  if (!json.is_object()) return Damaged(file, "its header is no JSON object");
  if (!keys.twice().empty()) {
    return Damaged(file, absl::StrCat("its header has \"", keys.twice(), "\" twice"));
  }
  const int64_t data_begin = kLengthBytes + static_cast<int64_t>(length);
  TensorHeader header;
  for (const auto& [name, value] : json.items()) {
    if (name == kMetadataKey) {
      for (const auto& [key, word] : value.items()) {
        if (!word.is_string()) return Damaged(file, "its __metadata__ has what is no string");
        header.metadata[key] = word.get<std::string>();
      }
      continue;
    }
    ASSIGN_OR_RETURN(PlacedTensor tensor,
                     ParseTensor(file, name, value, data_begin, file_bytes - data_begin));
    header.tensors.push_back(std::move(tensor));
  }
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const PlacedTensor& a, const PlacedTensor& b) {
              // Empty ones may share their place with the next.
              return a.begin != b.begin ? a.begin < b.begin : a.info.bytes() < b.info.bytes();
            });
  RETURN_IF_ERROR(CheckWithoutGaps(file, header.tensors, data_begin, file_bytes));
  return header;
}

}  // namespace dslide
