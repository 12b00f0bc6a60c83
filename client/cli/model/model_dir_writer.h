// A model that takes its place in a directory (model_dir.h) as a whole:
//
//   LOCK       while somebody writes (model_dir_lock.h)
//   .writing/  the new model, until it is complete; an earlier one is read meanwhile
//   .ready/    complete: from here on it is the model, and a crash ends with it
//   .moving/   the earlier one is gone, and it moves to its place
//
// Whoever writes next removes what a killed process has left in .writing, and finishes the others.

#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/model/model_dir_lock.h"

namespace dslide::cli {

enum class ModelDirUse {
  kNew,        // an absent or empty directory
  kOverwrite,  // also one with a model, or with nothing but parts of one
  kContinue,   // one with a model
};

// Not thread-safe.
class ModelDirWriter {
 public:
  // Locks the directory before anything in it changes.
  // Errors: InvalidArgument naming the directory and the remedy when it does not suit `use`, holds
  // foreign files, or is written or served by another process; those of LocalFileError().
  static absl::StatusOr<std::unique_ptr<ModelDirWriter>> Open(const std::string& path,
                                                              ModelDirUse use);
  // Without Commit() the new model is removed; an earlier one stays.
  ~ModelDirWriter();

  // Where the new model is put together.
  const std::string& staging() const { return staging_; }

  // Puts the complete new model in the place of an earlier one, of which all files go; foreign
  // files stay. Durable afterwards. Errors: those of LocalFileError().
  absl::Status Commit();

 private:
  ModelDirWriter(std::string path, std::unique_ptr<ModelDirLock> lock);

  const std::string path_;
  const std::string staging_;
  const std::unique_ptr<ModelDirLock> lock_;
};

// Returns at once when a directory has its model in place, else when a process that is putting it
// there has done so. For readers; changes nothing.
// Errors: FailedPrecondition when it takes too long: that process was killed.
absl::Status AwaitModelInPlace(const std::string& path);

// Why a directory holds no model, to follow that: a training that writes it, or was killed; "" when
// nothing says so.
std::string WhyNoModel(const std::string& path);

}  // namespace dslide::cli
