// How far a long piece of work is, and whether it is to end before.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace dslide::coordinator {

// The work says where it is and looks, where it waits, whether it is to end; others read the one
// and ask for the other. Thread safety: safe from any thread.
class WorkProgress {
 public:
  struct View {
    std::string stage;        // a few words for people; "" before the first
    int64_t shards_done = 0;  // of those that the stage waits for
    int64_t shards = 0;       // 0: none is counted
  };

  // What is done from here on, by so many shards.
  void Begin(absl::string_view stage, size_t shards = 0);
  void ShardDone();
  View view() const;

  // Asks the work to end with `why`, which is not OK. What was asked first counts.
  void Cancel(const absl::Status& why);
  // OK, or why the work is to end.
  absl::Status Check() const;

  // While it exists, a Cancel() calls `interrupt`; at once if that has happened already. It must be
  // quick, and call nothing of the WorkProgress.
  class Interrupt {
   public:
    Interrupt(WorkProgress& progress, std::function<void()> interrupt);
    ~Interrupt();
    Interrupt(const Interrupt&) = delete;
    Interrupt& operator=(const Interrupt&) = delete;

   private:
    WorkProgress& progress_;
    const std::function<void()> interrupt_;
  };

 private:
  mutable absl::Mutex mu_;
  View view_ ABSL_GUARDED_BY(mu_);
  absl::Status why_ ABSL_GUARDED_BY(mu_);
  std::vector<const std::function<void()>*> interrupts_ ABSL_GUARDED_BY(mu_);
};

}  // namespace dslide::coordinator
