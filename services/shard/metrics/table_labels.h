// The names of tables as values of a metric's label: few, whatever the clients call their tables.

#pragma once

#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace dslide::shard {

// Thread safety: safe from any thread.
class TableLabels {
 public:
  static constexpr size_t kMaxTables = 64;
  static constexpr char kOther[] = "other";

  // The name itself for the first kMaxTables different ones, kOther for all later ones. Only names
  // of tables that exist should be asked for.
  std::string LabelOf(const std::string& table);

 private:
  absl::Mutex mu_;
  std::set<std::string> known_ ABSL_GUARDED_BY(mu_);
};

}  // namespace dslide::shard
