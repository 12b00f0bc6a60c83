#include "core/engine/data/name_list.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/engine/data/data_file.h"

namespace dslide {
namespace {

// "" when there is none.
std::string FileBeside(const std::string& data_path, absl::string_view name) {
  const size_t slash = data_path.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : data_path.substr(0, slash + 1);
  for (const absl::string_view suffix : {"", ".xz", ".gz", ".zst", ".lz4", ".bz2"}) {
    std::string candidate = absl::StrCat(folder, name, suffix);
    if (access(candidate.c_str(), R_OK) == 0) return candidate;
  }
  return "";
}

}  // namespace

bool LineReader::Next(absl::string_view* line) {
  if (rest_.empty()) return false;
  const size_t stop = std::min(rest_.find('\n'), rest_.size());
  *line = rest_.substr(0, stop);
  if (!line->empty() && line->back() == '\r') line->remove_suffix(1);
  rest_.remove_prefix(std::min(stop + 1, rest_.size()));
  ++line_number_;
  return true;
}

absl::StatusOr<std::vector<std::string>> FindNames(const std::string& path,
                                                   const std::string& data_path,
                                                   absl::string_view default_name, int64_t count,
                                                   std::vector<std::string>* notes) {
  const std::string chosen = path.empty() ? FileBeside(data_path, default_name) : path;
  if (chosen.empty()) return std::vector<std::string>();
  ASSIGN_OR_RETURN(const DataFile file, DataFile::Open(chosen));
  LineReader reader(file.bytes());
  std::vector<std::string> names;
  absl::string_view line;
  while (reader.Next(&line)) {
    if (reader.line_number() <= count) names.emplace_back(line);  // no memory for other files
  }
  if (reader.line_number() == count) return names;
  if (path.empty()) {  // it may be of some other data in this folder
    if (notes != nullptr) {
      notes->push_back(absl::StrCat(chosen, " has ", reader.line_number(), " lines, not ", count,
                                    ": its names are not used"));
    }
    return std::vector<std::string>();
  }
  return absl::InvalidArgumentError(absl::StrCat(chosen, " has ", reader.line_number(), " lines; ",
                                                 data_path, " needs ", count, " names"));
}

}  // namespace dslide
