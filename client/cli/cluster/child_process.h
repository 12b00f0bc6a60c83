// A program started by this one, with its output in a file.

#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace dslide::cli {

// Not thread-safe. The child is in a process group of its own, so that a terminal's Ctrl-C does not
// reach it, and gets SIGTERM when this process dies.
class ChildProcess {
 public:
  // `name` is for messages ("shard 1"); `log_path` receives stdout and stderr.
  // Errors: NotFound when the program is not there; Internal when it cannot be started.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(const std::string& name,
                                                             const std::string& program,
                                                             const std::vector<std::string>& args,
                                                             const std::string& log_path);
  // Kills it if it still runs.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  const std::string& name() const { return name_; }
  const std::string& log_path() const { return log_path_; }
  pid_t pid() const { return pid_; }

  // True while it runs; afterwards exit_code() is known (128 + signal when it was killed).
  bool Running();
  int exit_code() const { return exit_code_; }
  // "shard 1 ended with exit code 3", with the last lines of its log.
  std::string Obituary() const;

  void Terminate();
  // Waits for its end; kills it after `patience`.
  void WaitForEnd(absl::Duration patience);

 private:
  ChildProcess(std::string name, std::string log_path, pid_t pid);

  const std::string name_;
  const std::string log_path_;
  const pid_t pid_;
  bool ended_ = false;
  int exit_code_ = 0;
};

// The directory of this program's own file, where its companions are.
std::string ProgramDirectory();

// The value of `key` in the last log line that has it (key=value or key="value"); "" without one.
std::string LastLogValue(const std::string& log_path, const std::string& key);

}  // namespace dslide::cli
