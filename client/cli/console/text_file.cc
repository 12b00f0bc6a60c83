#include "client/cli/console/text_file.h"

#include <cerrno>
#include <fstream>
#include <sstream>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/utf8.h"
#include "core/system/files/system_error.h"

namespace dslide::cli {

absl::StatusOr<std::string> ReadTextFile(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file && (text << file.rdbuf())) return std::string(WithoutByteOrderMark(text.str()));
  const int error = errno;
  const std::string why = error == 0 ? "it is empty" : std::generic_category().message(error);
  const std::string message = absl::StrCat(path, ": cannot be read: ", why);
  return error == EACCES ? SystemErrorOf(message) : absl::NotFoundError(message);
}

}  // namespace dslide::cli
