#include "core/system/files/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>

#include "core/system/files/system_error.h"

namespace dslide {
namespace {

// What a shell says of a program that SIGPIPE ended.
constexpr int kReaderGoneCode = 128 + SIGPIPE;

int failure = 0;  // errno of the first write that failed

void Note(bool written) {
  if (!written && failure == 0) failure = errno == 0 ? EIO : errno;
}

}  // namespace

void PrepareStandardStreams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free number is this one. Open for the wrong direction: its use fails with EBADF.
    const int opened = open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    if (opened >= 0 && opened != fd) close(opened);
  }
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

void WriteResult(absl::string_view text) {
  if (failure != 0) return;
  errno = 0;
  Note(std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0);
}

absl::Status ResultStatus() {
  if (failure == 0) return absl::OkStatus();
  if (failure == EPIPE) return absl::AbortedError("the reader of the output has gone");
  return SystemError("write", "the result to stdout", failure);
}

absl::Status CloseResults() {
  errno = 0;
  Note(std::fflush(stdout) == 0 && std::ferror(stdout) == 0);
  // A copy is closed: the number stays taken.
  const int copy = dup(STDOUT_FILENO);
  if (copy >= 0) Note(close(copy) == 0);
  return ResultStatus();
}

int ExitWithResults(absl::string_view program, int exit_code, int disk_full) {
  const absl::Status status = CloseResults();
  if (status.ok()) return exit_code;
  if (absl::IsAborted(status)) return exit_code == 0 ? kReaderGoneCode : exit_code;
  std::fprintf(stderr, "%.*s: %s\n", static_cast<int>(program.size()), program.data(),
               std::string(status.message()).c_str());
  if (exit_code != 0) return exit_code;
  return IsDiskFull(status) ? disk_full : 1;
}

}  // namespace dslide
