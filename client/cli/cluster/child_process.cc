#include "client/cli/cluster/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/engine/data/file_output.h"

namespace dslide::cli {
namespace {

constexpr size_t kObituaryLines = 5;
constexpr int kCannotExecute = 127;

// Only async-signal-safe calls: other threads of the parent are gone after fork().
[[noreturn]] void BecomeProgram(const char* program, char* const* argv, int log) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  signal(SIGPIPE, SIG_DFL);
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(nothing, STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  execv(program, argv);
  _exit(kCannotExecute);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(
    const std::string& name, const std::string& program, const std::vector<std::string>& args,
    const std::string& log_path) {
  if (access(program.c_str(), X_OK) != 0) {
    return absl::NotFoundError(absl::StrCat(program, ": ", std::strerror(errno),
                                            "; it belongs beside the dslide program"));
  }
  const int log = open(log_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (log < 0) {
    return LocalFileError("write", log_path, errno);
  }
  std::vector<std::string> words = {program};
  words.insert(words.end(), args.begin(), args.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t pid = fork();
  if (pid == 0) BecomeProgram(program.c_str(), argv.data(), log);
  const int why = errno;
  close(log);
  if (pid < 0) {
    return absl::InternalError(absl::StrCat("cannot start ", program, ": ", std::strerror(why)));
  }
  return std::unique_ptr<ChildProcess>(new ChildProcess(name, log_path, pid));
}

ChildProcess::ChildProcess(std::string name, std::string log_path, pid_t pid)
    : name_(std::move(name)), log_path_(std::move(log_path)), pid_(pid) {}

ChildProcess::~ChildProcess() { WaitForEnd(absl::ZeroDuration()); }

bool ChildProcess::Running() {
  if (ended_) return false;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) == 0) return true;
  ended_ = true;
  exit_code_ = WIFEXITED(status)     ? WEXITSTATUS(status)
               : WIFSIGNALED(status) ? 128 + WTERMSIG(status)
                                     : 1;
  return false;
}

std::string ChildProcess::Obituary() const {
  std::deque<std::string> last;
  std::ifstream log(log_path_);
  for (std::string line; std::getline(log, line);) {
    last.push_back(line);
    if (last.size() > kObituaryLines) last.pop_front();
  }
  std::string text = exit_code_ > 128
                         ? absl::StrCat(name_, " was ended by signal ", exit_code_ - 128)
                         : absl::StrCat(name_, " ended with exit code ", exit_code_);
  absl::StrAppend(&text, "; its log is ", log_path_, last.empty() ? "" : " and ends with:");
  for (const std::string& line : last) absl::StrAppend(&text, "\n  ", line);
  return text;
}

void ChildProcess::Terminate() {
  if (Running()) kill(pid_, SIGTERM);
}

void ChildProcess::WaitForEnd(absl::Duration patience) {
  const absl::Time deadline = absl::Now() + patience;
  while (Running()) {
    if (absl::Now() >= deadline) kill(pid_, SIGKILL);
    absl::SleepFor(absl::Milliseconds(10));
  }
}

std::string ProgramDirectory() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "." : self.parent_path().string();
}

std::string LastLogValue(const std::string& log_path, const std::string& key) {
  std::ifstream log(log_path);
  std::string value;
  const std::string mark = absl::StrCat(" ", key, "=");
  for (std::string line; std::getline(log, line);) {
    const size_t at = line.find(mark);
    if (at == std::string::npos) continue;
    std::string rest = line.substr(at + mark.size());
    const bool quoted = absl::StartsWith(rest, "\"");
    if (quoted) rest.erase(0, 1);
    value = rest.substr(0, rest.find(quoted ? '"' : ' '));
  }
  return value;
}

}  // namespace dslide::cli
