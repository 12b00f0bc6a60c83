#include "core/protocol/job_work.h"

#include "absl/strings/str_cat.h"

namespace dslide {

const char* JobStageName(JobStage stage) {
  switch (stage) {
    case JobStage::kPreparation:
      return "preparation";
    case JobStage::kTraining:
      return "training";
    case JobStage::kCompletion:
      return "completion";
  }
  return "unknown";
}

std::string BestCheckpointOf(const std::string& job) {
  constexpr size_t kLongestName = 64;
  std::string name = absl::StrCat(kBestCheckpointPrefix, job);
  if (name.size() <= kLongestName) return name;
  uint32_t hash = 2166136261U;
  for (const char c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return absl::StrCat(kBestCheckpointPrefix, job.substr(0, 50), "-",
                      absl::Hex(hash, absl::kZeroPad8));
}

}  // namespace dslide
