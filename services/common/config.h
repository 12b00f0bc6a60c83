// Settings of a binary from flags, environment and a file, one name in three spellings:
//
//   --lease-timeout 30s      DSLIDE_LEASE_TIMEOUT=30s      lease-timeout = "30s"   (or [lease]
//   timeout)
//
// A flag beats the environment, which beats the file, which beats the default. An empty variable
// counts as unset, and blanks around the value of one are no part of it. Unknown flags and
// keys, keys given twice and malformed values are errors that name where they stand.
//
// CLI11 reads the flags and writes the help. Its own file and environment support is not used: in
// version 2.1 a file beats the environment, and unknown keys, cut values and line numbers get lost.

#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace dslide {

struct ConfigText {
  std::string binary;       // "dslide-shard"
  std::string description;  // one or two sentences
  std::string footer;       // examples, exit codes; shown at the end of --help
};

// Add* binds a setting to a variable that holds its default and outlives the parser. Names are
// lower-case words joined by dashes. Not thread-safe.
class ConfigParser {
 public:
  explicit ConfigParser(ConfigText text);
  ~ConfigParser();
  ConfigParser(const ConfigParser&) = delete;
  ConfigParser& operator=(const ConfigParser&) = delete;

  void AddString(const std::string& name, std::string* value, const std::string& help);
  // Refused when it is none of `words`.
  void AddWord(const std::string& name, std::string* value, std::vector<std::string> words,
               const std::string& help);
  // --name, --name=false.
  void AddBool(const std::string& name, bool* value, const std::string& help);
  // Refused outside [min, max].
  void AddInt(const std::string& name, int64_t* value, int64_t min, int64_t max,
              const std::string& help);
  void AddDouble(const std::string& name, double* value, double min, double max,
                 const std::string& help);
  // "64MiB"; refused outside [min, max].
  void AddByteSize(const std::string& name, int64_t* value, int64_t min, int64_t max,
                   const std::string& help);
  // "30s"; refused outside [min, max].
  void AddDuration(const std::string& name, absl::Duration* value, absl::Duration min,
                   absl::Duration max, const std::string& help);

  // Checks that concern several settings; called once all have their values.
  void SetValidator(std::function<absl::Status()> validate);

  // Reads everything. Returns nothing when the binary shall run, or the exit code with which it
  // shall end: 0 after --help, --version, --print-config or a --check-config that found no fault, 2
  // after an error, which is then printed on stderr. `environment` replaces getenv in tests.
  std::optional<int> Parse(int argc, const char* const* argv,
                           const std::function<const char*(const char*)>& environment = nullptr);

  // Every setting as a file that reads back to the same, each with where its value came from.
  std::string Print() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// One "key = value" of a configuration file.
struct ConfigEntry {
  std::string key;  // sections and words joined by dashes: "lease-timeout"
  std::string value;
  int line = 0;  // from 1
};

// Reads the file format: lines `key = value`, `[section]`, blanks and `# comments`. Values are bare
// words, or in double quotes with \" and \\ . Errors: InvalidArgument naming `origin` and the line.
absl::StatusOr<std::vector<ConfigEntry>> ParseConfigFile(absl::string_view text,
                                                         absl::string_view origin);

}  // namespace dslide
