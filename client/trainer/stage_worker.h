// What one trainer of a staged job does for all of them, before the first epoch and after the last.

#pragma once

#include "absl/status/status.h"

namespace dslide {

// Thread safety: one thread. Errors: those of the data and the shards; Cancelled when somebody
// asked to stop.
class StageWorker {
 public:
  virtual ~StageWorker() = default;

  // Either may be called again, here or by another trainer, and ends in the same state then.
  virtual absl::Status Prepare() = 0;
  virtual absl::Status Complete() = 0;

  // Goes on as another client, after the shards have retired or forgotten this one. Nothing else
  // uses the worker meanwhile.
  virtual absl::Status Reopen() = 0;
};

}  // namespace dslide
