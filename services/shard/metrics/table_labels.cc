#include "services/shard/metrics/table_labels.h"

namespace dslide::shard {

std::string TableLabels::LabelOf(const std::string& table) {
  const absl::MutexLock lock(&mu_);
  if (known_.contains(table)) return table;
  if (known_.size() >= kMaxTables) return kOther;
  known_.insert(table);
  return table;
}

}  // namespace dslide::shard
