#include "client/cli/console/operation_display.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/cli/console/terminal.h"

namespace dslide::cli {

std::string DescribeProgress(const OperationStatus& operation) {
  std::string text = operation.stage.empty() ? "waiting for its turn" : operation.stage;
  if (operation.shards > 0) {
    absl::StrAppend(&text, ", ", operation.shards_done, " of ", operation.shards, " shards");
  }
  absl::StrAppend(&text, ", ",
                  absl::FormatDuration(absl::Floor(operation.elapsed, absl::Seconds(1))));
  return operation.cancel_requested ? absl::StrCat("cancelled, still ", text) : text;
}

OperationDisplay::OperationDisplay(const GlobalOptions& global)
    : live_(!global.quiet && IsTerminal(STDERR_FILENO)), quiet_(global.quiet) {}

OperationDisplay::~OperationDisplay() { Clear(); }

OperationWatch OperationDisplay::watch() {
  return {.on_progress = [this](const OperationStatus& operation) { Show(operation); },
          .stop_requested = [this] { return StopRequested(); }};
}

void OperationDisplay::Show(const OperationStatus& operation) {
  if (!live_) return;
  std::string line = DescribeProgress(operation);
  line.resize(std::min(line.size(), static_cast<size_t>(TerminalWidth(STDERR_FILENO) - 1)));
  std::fprintf(stderr, "\r\033[K%s", line.c_str());
  std::fflush(stderr);
  drawn_ = true;
}

void OperationDisplay::Clear() {
  if (!drawn_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
  drawn_ = false;
}

bool OperationDisplay::StopRequested() {
  if (!InterruptGuard::Interrupted()) return false;
  if (!told_ && !quiet_) {
    Clear();
    PrintNote("dslide: cancelling it; Ctrl-C again leaves it to the coordinator");
  }
  told_ = true;
  return true;
}

}  // namespace dslide::cli
