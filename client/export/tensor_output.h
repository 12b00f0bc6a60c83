// Where an exported model goes: tensors that are written beside each other, each from its first
// byte on, so that one pass over the rows fills them all.

#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace dslide {

// Not thread-safe.
class TensorOutput {
 public:
  virtual ~TensorOutput() = default;

  // The next bytes of tensor number `tensor` of those that the output was made for.
  // Errors: ResourceExhausted when the disk is full, else other system errors; Internal for more
  // bytes than the tensor has.
  virtual absl::Status Append(size_t tensor, absl::string_view bytes) = 0;

  // Gives the result its name. Without it nothing is left behind.
  // Errors: as Append(); Internal when a tensor has too few bytes.
  virtual absl::Status Commit() = 0;
};

}  // namespace dslide
