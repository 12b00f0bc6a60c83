// What is wrong with the data directory of a server.

#pragma once

#include <string>

#include "absl/status/status.h"

namespace dslide {

// "data directory <path>: <message>", with the code that says what is to be done: DataLoss when
// something is damaged or lost; PermissionDenied when this user may not read or write it,
// ResourceExhausted DISK_FULL, FailedPrecondition when another process uses it or another version
// wrote it, Internal when the device failed. Nothing is lost then.
absl::Status DataDirError(const std::string& path, const absl::Status& status);

// Whether a status is of DataDirError(): callers tell it by this from addresses and settings.
bool IsDataDirError(const absl::Status& status);

}  // namespace dslide
