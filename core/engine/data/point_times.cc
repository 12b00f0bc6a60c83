#include "core/engine/data/point_times.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/status_macros.h"
#include "core/engine/data/data_file.h"
#include "core/engine/data/name_list.h"
#include "core/engine/data/parse_error.h"

namespace dslide {

absl::StatusOr<std::vector<uint32_t>> ReadPointTimes(const std::string& path, int64_t num_points) {
  ASSIGN_OR_RETURN(const DataFile file, DataFile::Open(path));
  LineReader reader(file.bytes());
  std::vector<uint32_t> times;
  absl::string_view line;
  while (reader.Next(&line)) {
    if (!absl::SimpleAtoi(line, &times.emplace_back())) {
      return ParseError(path, reader.line_number(),
                        {1, QuoteFound(line), "a whole number in [0, 2^32)"});
    }
  }
  if (static_cast<int64_t>(times.size()) == num_points) return times;
  return absl::InvalidArgumentError(absl::StrCat(
      path, " has ", times.size(), " lines, the data ", num_points,
      " points: it must say the time of each point on a line of its own, in their order"));
}

}  // namespace dslide
