#include "core/protocol/job_work.h"

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

}  // namespace dslide
