#include <utility>

#include "absl/strings/str_cat.h"
#include "services/coordinator/assets/asset_folders.h"

namespace dslide::coordinator {
namespace {

// Of a coordinator without a data directory.
class MemoryAssetFolders final : public AssetFolders {
 public:
  absl::StatusOr<Content> Load() override { return Content(); }
  absl::Status Write(const AssetSetId& id, const std::string& file, int64_t offset,
                     absl::string_view piece) override {
    std::string& content = uploads_[id][file];
    const auto begin = static_cast<size_t>(offset);
    if (content.size() < begin + piece.size()) content.resize(begin + piece.size());
    content.replace(begin, piece.size(), piece.data(), piece.size());
    return absl::OkStatus();
  }
  absl::Status Keep(const AssetSetId& id) override {
    kept_[id] = std::move(uploads_[id]);
    uploads_.erase(id);
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> Read(Place place, const AssetSetId& id, const std::string& file,
                                   int64_t offset, int64_t most) const override {
    const Folders& folders = place == Place::kKept ? kept_ : uploads_;
    const auto folder = folders.find(id);
    const auto found =
        folder == folders.end() ? Folder::const_iterator() : folder->second.find(file);
    if (folder == folders.end() || found == folder->second.end()) {
      return absl::NotFoundError(absl::StrCat(file, " does not exist"));
    }
    const std::string& content = found->second;
    if (static_cast<size_t>(offset) >= content.size()) return std::string();
    return content.substr(static_cast<size_t>(offset), static_cast<size_t>(most));
  }
  absl::Status Remove(Place place, const AssetSetId& id) override {
    (place == Place::kKept ? kept_ : uploads_).erase(id);
    return absl::OkStatus();
  }
  absl::Status SetCurrent(const AssetSetId&) override { return absl::OkStatus(); }
  absl::Status ClearCurrent(const std::string&) override { return absl::OkStatus(); }

 private:
  using Folder = std::map<std::string, std::string>;  // file -> content
  using Folders = std::map<AssetSetId, Folder>;

  Folders uploads_;
  Folders kept_;
};

}  // namespace

std::unique_ptr<AssetFolders> AssetFolders::InMemory() {
  return std::make_unique<MemoryAssetFolders>();
}

}  // namespace dslide::coordinator
