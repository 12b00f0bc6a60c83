#include "client/export/safetensors_output.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/export/positioned_file.h"
#include "core/base/status_macros.h"
#include "core/engine/data/file_output.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

absl::Status FileError(const std::error_code& error, absl::string_view what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", error.message()));
}

struct TensorPlace {
  size_t file = 0;
  int64_t next = 0;
  int64_t end = 0;
};

class SafetensorsOutput final : public TensorOutput {
 public:
  SafetensorsOutput(SafetensorsOptions options, std::vector<TensorInfo> tensors)
      : options_(std::move(options)),
        in_folder_(!absl::EndsWith(options_.path, kTensorSuffix)),
        tensors_(std::move(tensors)),
        places_(tensors_.size()) {}
  ~SafetensorsOutput() override {
    files_.clear();
    std::error_code error;
    if (in_folder_ && !committed_) fs::remove_all(PartialFolder(), error);
  }

  absl::Status Open(const TensorMetadata& metadata) {
    const std::vector<std::vector<size_t>> files =
        DealTensors(tensors_, in_folder_ ? options_.max_shard_bytes : INT64_MAX);
    if (in_folder_) {
      // What an export that was killed has left.
      std::error_code error;
      fs::remove_all(PartialFolder(), error);
      if (!error) fs::create_directories(PartialFolder(), error);
      if (error) return FileError(error, absl::StrCat(PartialFolder(), ": cannot be made"));
    }
    for (size_t f = 0; f < files.size(); ++f) {
      names_.push_back(files.size() == 1 ? std::string(kTensorFileName)
                                         : absl::StrFormat("model-%05d-of-%05d.safetensors", f + 1,
                                                           files.size()));
      RETURN_IF_ERROR(OpenFile(f, files[f], metadata));
    }
    return absl::OkStatus();
  }

  absl::Status Append(size_t tensor, absl::string_view bytes) override {
    TensorPlace& place = places_[tensor];
    const auto size = static_cast<int64_t>(bytes.size());
    if (size > place.end - place.next) return WrongSize(tensor, "more");
    RETURN_IF_ERROR(files_[place.file].WriteAt(place.next, bytes));
    place.next += size;
    return absl::OkStatus();
  }

  absl::Status Commit() override {
    for (size_t i = 0; i < places_.size(); ++i) {
      if (places_[i].next != places_[i].end) return WrongSize(i, "fewer");
    }
    for (PositionedFile& file : files_) RETURN_IF_ERROR(file.Commit());
    if (!in_folder_) return absl::OkStatus();
    if (names_.size() > 1) RETURN_IF_ERROR(WriteIndex());
    return Publish();
  }

 private:
  std::string PartialFolder() const { return options_.path + ".partial"; }

  absl::Status OpenFile(size_t number, const std::vector<size_t>& members,
                        const TensorMetadata& metadata) {
    std::vector<TensorInfo> infos;
    for (const size_t tensor : members) infos.push_back(tensors_[tensor]);
    ASSIGN_OR_RETURN(
        PositionedFile file,
        PositionedFile::Create(in_folder_ ? absl::StrCat(PartialFolder(), "/", names_[number])
                                          : options_.path));
    const std::string header = EncodeTensorHeader(infos, metadata);
    RETURN_IF_ERROR(file.WriteAt(0, header));
    auto offset = static_cast<int64_t>(header.size());
    for (const size_t tensor : members) {
      const int64_t bytes = tensors_[tensor].bytes();
      places_[tensor] = {.file = number, .next = offset, .end = offset + bytes};
      offset += bytes;
    }
    files_.push_back(std::move(file));
    return absl::OkStatus();
  }

  absl::Status WriteIndex() const {
    nlohmann::ordered_json json;
    int64_t total = 0;
    json["metadata"]["total_size"] = 0;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      total += tensors_[i].bytes();
      json["weight_map"][tensors_[i].name] = names_[places_[i].file];
    }
    json["metadata"]["total_size"] = total;
    ASSIGN_OR_RETURN(FileOutput file,
                     FileOutput::Create(absl::StrCat(PartialFolder(), "/", kTensorIndexName)));
    RETURN_IF_ERROR(file.Append(json.dump(2) + "\n"));
    return file.CommitDurably();
  }

  // The old folder goes aside first: a folder cannot take the place of one that has files.
  absl::Status Publish() {
    const std::string old = options_.path + ".old";
    std::error_code error;
    if (fs::exists(options_.path, error)) {
      fs::remove_all(old, error);
      if (!error) fs::rename(options_.path, old, error);
    }
    if (!error) fs::rename(PartialFolder(), options_.path, error);
    if (error) return FileError(error, absl::StrCat(options_.path, ": cannot be replaced"));
    committed_ = true;
    fs::remove_all(old, error);
    return absl::OkStatus();
  }

  absl::Status WrongSize(size_t tensor, const char* how) const {
    return absl::InternalError(absl::StrCat("tensor \"", tensors_[tensor].name, "\" got ", how,
                                            " bytes than its ", tensors_[tensor].bytes()));
  }

  const SafetensorsOptions options_;
  const bool in_folder_;
  const std::vector<TensorInfo> tensors_;
  std::vector<TensorPlace> places_;  // [tensors]
  std::vector<std::string> names_;   // [files]
  std::vector<PositionedFile> files_;
  bool committed_ = false;
};

// A folder that --overwrite replaces holds an export and nothing else.
absl::Status CheckHoldsExport(const std::string& folder) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (absl::EndsWith(name, kTensorSuffix) || name == kTensorIndexName) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--output ", folder, ": holds ", name,
                     ", which is no part of an export; name a new folder"));
  }
  return error ? FileError(error, absl::StrCat(folder, ": cannot be read")) : absl::OkStatus();
}

}  // namespace

std::vector<std::vector<size_t>> DealTensors(const std::vector<TensorInfo>& tensors,
                                             int64_t max_shard_bytes) {
  std::vector<std::vector<size_t>> files(1);
  int64_t used = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t bytes = tensors[i].bytes();
    if (bytes > max_shard_bytes - used && !files.back().empty()) {
      files.emplace_back();
      used = 0;
    }
    files.back().push_back(i);
    used += bytes;
  }
  return files;
}

absl::StatusOr<std::unique_ptr<TensorOutput>> CreateSafetensors(
    const SafetensorsOptions& options, const std::vector<TensorInfo>& tensors,
    const TensorMetadata& metadata) {
  RETURN_IF_ERROR(CheckReplaceable(options.path, options.overwrite));
  std::error_code error;
  const bool is_folder = fs::is_directory(options.path, error);
  if (fs::exists(options.path, error) && is_folder == absl::EndsWith(options.path, kTensorSuffix)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--output ", options.path, ": is a ", is_folder ? "folder" : "file",
        "; a name that ends with .safetensors is one of a file, any other one of a folder"));
  }
  if (is_folder) RETURN_IF_ERROR(CheckHoldsExport(options.path));
  int64_t total = 0;
  for (const TensorInfo& tensor : tensors) total += tensor.bytes();
  RETURN_IF_ERROR(CheckRoomFor(options.path, total));
  auto output = std::make_unique<SafetensorsOutput>(options, tensors);
  RETURN_IF_ERROR(output->Open(metadata));
  return output;
}

}  // namespace dslide
