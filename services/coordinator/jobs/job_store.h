// Training jobs on the coordinator's disk.
//
//   <data dir>/jobs/<job>    what a job has done and who works on what (job_spec.h): JSON text and
//                            a line with its CRC-32C

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/coordinator/jobs/job_spec.h"

namespace dslide::coordinator {

// Not thread-safe.
class JobStore {
 public:
  virtual ~JobStore() = default;

  // The oldest first. Errors: DataLoss naming the file that is damaged; FailedPrecondition naming
  // one that another version has written; Unavailable with the disk's reason.
  virtual absl::StatusOr<std::vector<JobState>> Load() const = 0;

  // Durable when they return. Errors: Unavailable with the disk's reason; what was there stays.
  virtual absl::Status Put(const JobState& state) = 0;
  virtual absl::Status Remove(const std::string& job) = 0;
};

// Makes the directory when it is missing.
absl::StatusOr<std::unique_ptr<JobStore>> OpenJobStore(const std::string& data_dir);

// Reads all of a directory, which may be in use, and changes nothing; how many jobs it has.
// Errors: those of Load; NotFound when there is none.
absl::StatusOr<int64_t> InspectJobs(const std::string& data_dir);

}  // namespace dslide::coordinator
