#include "core/system/process/uncaught.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <new>
#include <stdexcept>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "core/system/log.h"

namespace dslide {
namespace {

constexpr int kExitCode = 1;  // "failure", of every program

constexpr char kNoThreads[] =
    "cannot start a thread: Resource temporarily unavailable; raise the limit of processes and "
    "threads (ulimit -u, pids.max of the container) or of memory (ulimit -v), or give fewer "
    "--threads";

const char* program_name = "dslide";
std::atomic<bool> threads_ran_out = false;

// Needs no memory: there may be none.
void WriteRaw(const char* text) {
  const ssize_t written = ::write(STDERR_FILENO, text, std::strlen(text));
  (void)written;  // nobody is left to be told
}

[[noreturn]] void EndByException() noexcept {
  try {
    const std::string what = DescribeException(std::current_exception());
    if (CurrentLogFormat() == LogFormat::kJson) {
      WriteLog(LogLevel::kError, "ended by an exception",
               {{"program", program_name}, {"error", what}});
    } else {
      WriteRaw(absl::StrCat(program_name, ": ", what, "\n").c_str());
    }
  } catch (...) {
    WriteRaw(program_name);
    WriteRaw(": out of memory\n");
  }
  // Destructors would wait for threads that may be stuck.
  _exit(kExitCode);
}

void EndBySigbus(int /*signal*/) {
  WriteRaw(program_name);
  WriteRaw(
      ": a file has become shorter while it was read, or its disk cannot be read (SIGBUS): let "
      "nothing write to it meanwhile\n");
  _exit(kExitCode);
}

// Of a library that asserts that its threads can be started. Other aborts stay what they are.
void EndByAbort(int signal) {
  if (threads_ran_out) {
    WriteRaw(program_name);
    WriteRaw(": ");
    WriteRaw(kNoThreads);
    WriteRaw("\n");
    _exit(kExitCode);
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

void NoteThreadsRanOut() { threads_ran_out = true; }

std::string DescribeException(const std::exception_ptr& exception) {
  // While one was under way, a thread's destructor found its thread still running: the next could
  // not be started.
  if (exception == nullptr && std::uncaught_exceptions() > 0) return kNoThreads;
  if (exception == nullptr) return "ended by std::terminate: this is a bug, please report it";
  try {
    std::rethrow_exception(exception);
  } catch (const std::bad_alloc&) {
    return "out of memory: give the process more (its limits: the machine's memory, the "
           "container's, ulimit -v), or ask for less: fewer rows, a smaller --dim or --batch-size, "
           "fewer --threads";
  } catch (const std::length_error&) {
    return "out of memory: more elements were asked for than any machine can hold; give smaller "
           "sizes";
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::resource_unavailable_try_again) {
      return kNoThreads;
    }
    return error.what();
  } catch (const std::exception& error) {
    return absl::StrCat(error.what(), ": this is a bug, please report it");
  } catch (...) {
    return "an exception of an unknown type: this is a bug, please report it";
  }
}

void ExitOnUncaught(const char* program) {
  program_name = program;
  std::set_terminate(&EndByException);
  struct sigaction action = {};
  action.sa_handler = &EndBySigbus;
  ::sigaction(SIGBUS, &action, nullptr);
  action.sa_handler = &EndByAbort;
  ::sigaction(SIGABRT, &action, nullptr);
}

}  // namespace dslide
