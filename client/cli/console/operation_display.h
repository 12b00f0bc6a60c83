// Shows on a terminal how far an operation of the coordinator is, and cancels it at Ctrl-C.

#pragma once

#include <string>

#include "client/cli/console/global_options.h"
#include "client/cli/console/interrupt.h"
#include "client/cpp/coordinator_client.h"

namespace dslide::cli {

// "writing, 2 of 3 shards, 12s".
std::string DescribeProgress(const OperationStatus& operation);

// One at a time: it catches signals while it exists. Not thread-safe.
class OperationDisplay {
 public:
  explicit OperationDisplay(const GlobalOptions& global);
  // Leaves an empty line behind.
  ~OperationDisplay();
  OperationDisplay(const OperationDisplay&) = delete;
  OperationDisplay& operator=(const OperationDisplay&) = delete;

  // For the calls that this one shows; it outlives them.
  OperationWatch watch();

 private:
  void Show(const OperationStatus& operation);
  void Clear();
  bool StopRequested();

  const InterruptGuard interrupts_;
  const bool live_;  // draw one line again and again
  const bool quiet_;
  bool drawn_ = false;  // there is a line
  bool told_ = false;   // that it is being cancelled
};

}  // namespace dslide::cli
