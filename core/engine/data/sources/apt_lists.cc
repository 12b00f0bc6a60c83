#include "core/engine/data/sources/apt_lists.h"

#include <dirent.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace dslide {

absl::StatusOr<std::vector<std::string>> ListAptFiles(
    const std::string& lists_dir, absl::FunctionRef<bool(absl::string_view name)> wanted) {
  std::vector<std::string> names;
  DIR* folder = opendir(lists_dir.c_str());
  if (folder == nullptr) {
    if (errno == ENOENT) return names;
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot list ", lists_dir));
  }
  while (const dirent* entry = readdir(folder)) {
    absl::string_view name = entry->d_name;
    for (const absl::string_view suffix : {".lz4", ".gz", ".xz", ".zst"}) {
      if (absl::ConsumeSuffix(&name, suffix)) break;
    }
    if (wanted(name)) names.emplace_back(entry->d_name);
  }
  closedir(folder);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace dslide
