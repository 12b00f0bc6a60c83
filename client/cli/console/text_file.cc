#include "client/cli/console/text_file.h"

#include <cerrno>
#include <fstream>
#include <sstream>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace dslide::cli {

absl::StatusOr<std::string> ReadTextFile(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file && (text << file.rdbuf())) return text.str();
  const std::string why = errno == 0 ? "it is empty" : std::generic_category().message(errno);
  return absl::NotFoundError(absl::StrCat(path, ": cannot be read: ", why));
}

}  // namespace dslide::cli
