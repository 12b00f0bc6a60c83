// Early return on a failed absl::Status, without exceptions.

#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define DSLIDE_CONCAT_INNER_(a, b) a##b
#define DSLIDE_CONCAT_(a, b) DSLIDE_CONCAT_INNER_(a, b)

// Returns from the enclosing function when `expr` is not OK.
#define RETURN_IF_ERROR(expr)                                                 \
  do {                                                                        \
    if (absl::Status status_macro_value = (expr); !status_macro_value.ok()) { \
      return status_macro_value;                                              \
    }                                                                         \
  } while (false)

// Declares or assigns `lhs` from the value of a StatusOr, or returns its error.
#define ASSIGN_OR_RETURN(lhs, expr) \
  DSLIDE_ASSIGN_OR_RETURN_IMPL_(DSLIDE_CONCAT_(status_or_value_, __LINE__), lhs, expr)

#define DSLIDE_ASSIGN_OR_RETURN_IMPL_(result, lhs, expr) \
  auto result = (expr);                                  \
  if (!result.ok()) return std::move(result).status();   \
  lhs = std::move(result).value()
