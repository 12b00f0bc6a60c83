#include "client/export/safetensors_input.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/export/safetensors_output.h"
#include "core/base/status_macros.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

// As it is: a header's length may look like the mark of a compressed file.
absl::StatusOr<DataFile> MapFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  std::error_code error;
  absl::StatusOr<DataFile> file = absl::InvalidArgumentError(absl::StrCat(path, ": is no file"));
  if (fs::is_regular_file(path, error)) file = DataFile::FromDescriptor(fd, path);
  close(fd);
  return file;
}

// The files that an index names, which lie beside it.
absl::StatusOr<std::vector<std::string>> FilesOfIndex(const std::string& index) {
  ASSIGN_OR_RETURN(const DataFile file, MapFile(index));
  const auto json = nlohmann::json::parse(file.bytes().begin(), file.bytes().end(), nullptr,
                                          /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object()) {
    return absl::DataLossError(
        absl::StrCat(index, ": has no \"weight_map\": it is cut or no index"));
  }
  std::set<std::string> names;
  for (const auto& [tensor, name] : json["weight_map"].items()) {
    const std::string word = name.is_string() ? name.get<std::string>() : "";
    if (!absl::EndsWith(word, kTensorSuffix) || absl::StrContains(word, "/")) {
      return absl::DataLossError(absl::StrCat(index, ": tensor \"", tensor, "\" is in ",
                                              name.dump(), ", which is no file beside it"));
    }
    names.insert(word);
  }
  std::vector<std::string> files;
  for (const std::string& name : names) {
    files.push_back((fs::path(index).parent_path() / name).string());
  }
  return files;
}

absl::StatusOr<std::vector<std::string>> FindTensorFiles(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    return absl::NotFoundError(absl::StrCat(path, ": there is no such file or folder"));
  }
  std::string at = path;
  if (fs::is_directory(path, error)) {
    at = absl::StrCat(path, "/", kTensorIndexName);
    if (!fs::exists(at, error)) at = absl::StrCat(path, "/", kTensorFileName);
    if (!fs::exists(at, error)) {
      return absl::NotFoundError(
          absl::StrCat(path, ": holds neither ", kTensorFileName, " nor ", kTensorIndexName));
    }
  }
  if (absl::EndsWith(at, ".json")) return FilesOfIndex(at);
  return std::vector<std::string>{at};
}

}  // namespace

absl::Status SafetensorsInput::AddFile(const std::string& file) {
  ASSIGN_OR_RETURN(DataFile mapped, MapFile(file));
  ASSIGN_OR_RETURN(TensorHeader header, ParseTensorHeader(file, mapped.bytes(), mapped.size()));
  if (files_.empty()) metadata_ = std::move(header.metadata);
  // Files of one export say the same of it, its digests among that.
  else if (header.metadata != metadata_) {
    return absl::DataLossError(absl::StrCat(file, ": is of another export than ",
                                            files_.front().path(), ": copy all files again"));
  }
  for (const PlacedTensor& tensor : header.tensors) {
    const absl::string_view bytes = mapped.bytes().substr(static_cast<size_t>(tensor.begin),
                                                          static_cast<size_t>(tensor.info.bytes()));
    if (!tensors_.try_emplace(tensor.info.name, Tensor{tensor.info, bytes}).second) {
      return absl::DataLossError(
          absl::StrCat(file, ": tensor \"", tensor.info.name, "\" is in another file, too"));
    }
  }
  files_.push_back(std::move(mapped));
  return absl::OkStatus();
}

absl::StatusOr<SafetensorsInput> SafetensorsInput::Open(const std::string& path) {
  SafetensorsInput input;
  input.path_ = path;
  ASSIGN_OR_RETURN(const std::vector<std::string> files, FindTensorFiles(path));
  for (const std::string& file : files) RETURN_IF_ERROR(input.AddFile(file));
  return input;
}

const SafetensorsInput::Tensor* SafetensorsInput::Find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

absl::StatusOr<absl::string_view> SafetensorsInput::Get(const TensorInfo& wanted) const {
  const Tensor* const found = Find(wanted.name);
  if (found == nullptr) {
    return absl::DataLossError(
        absl::StrCat(path_, ": lacks tensor \"", wanted.name, "\": copy all files of the export"));
  }
  if (found->info == wanted) return found->bytes;
  return absl::DataLossError(absl::StrCat(path_, ": tensor \"", wanted.name, "\" has the shape [",
                                          absl::StrJoin(found->info.shape, ", "),
                                          "], the model needs [", absl::StrJoin(wanted.shape, ", "),
                                          "], or has another type"));
}

}  // namespace dslide
