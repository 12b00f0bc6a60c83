// An exported model as it lies in safetensors files, read through a mapping: only what is looked at
// is in memory.

#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/export/safetensors_header.h"
#include "core/engine/data/data_file.h"

namespace dslide {

// Thread safety: constant.
class SafetensorsInput {
 public:
  struct Tensor {
    TensorInfo info;
    absl::string_view bytes;  // valid as long as the input
  };

  // path: a file, the index of several, or a folder that holds either.
  // Errors: NotFound; DataLoss naming the file that is damaged, missing, or of another export than
  // the others.
  static absl::StatusOr<SafetensorsInput> Open(const std::string& path);

  const std::string& path() const { return path_; }
  const TensorMetadata& metadata() const { return metadata_; }
  // Null when there is none.
  const Tensor* Find(const std::string& name) const;
  // Errors: DataLoss when there is none of that type and shape.
  absl::StatusOr<absl::string_view> Get(const TensorInfo& wanted) const;

 private:
  absl::Status AddFile(const std::string& file);

  std::string path_;
  std::vector<DataFile> files_;
  TensorMetadata metadata_;
  std::map<std::string, Tensor> tensors_;
};

}  // namespace dslide
