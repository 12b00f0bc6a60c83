// What the system said about a file, as a status that tells what to do about it.

#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace dslide {

// "cannot <what> <path>: <system's reason>", with the remedy where there is one:
//   ResourceExhausted DISK_FULL  the disk, or the user's share of it, is full
//   PermissionDenied             this user may not, or nobody may: the file system is read-only
//   Unavailable                  everything else
absl::Status SystemError(absl::string_view what, const std::string& path, int error);

// Of a library that keeps nothing but the words of strerror(): what SystemError() would call it;
// Unavailable when it knows no more. `message` stays as it is, the remedy follows it.
absl::Status SystemErrorOf(absl::string_view message);

// Whether a library says that the device failed (EIO): what is on it may be whole.
bool IsDiskFailure(absl::string_view message);

bool IsDiskFull(const absl::Status& status);

}  // namespace dslide
