// What an examination of a cluster, or of a directory, has to say.

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace dslide {

enum class Severity {
  kOk,       // was looked at, and is as it should be
  kNote,     // worth knowing; nothing has to be done
  kWarning,  // will become an error, or hides one
  kError,    // something does not work, or is lost
};
const char* SeverityName(Severity severity);

struct Finding {
  Severity severity = Severity::kOk;
  std::string where;   // a path, or a process with its address
  std::string what;    // a sentence without its full stop
  std::string remedy;  // what to do; "" when nothing has to be done
  // What kind of error; decides the exit code.
  absl::StatusCode code = absl::StatusCode::kOk;
};

// Not thread-safe.
class Findings {
 public:
  void Ok(std::string where, std::string what);
  void Note(std::string where, std::string what, std::string remedy = "");
  void Warn(std::string where, std::string what, std::string remedy);
  void Error(std::string where, const absl::Status& error, std::string remedy);
  void Append(Findings other);

  const std::vector<Finding>& all() const { return all_; }
  // The gravest one's; kOk without any.
  Severity worst() const;

 private:
  std::vector<Finding> all_;
};

}  // namespace dslide
