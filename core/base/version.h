// Which build this is.

#pragma once

#include <string>

namespace dslide {

// Semantic version of the project, e.g. "0.1.0".
const char* Version();

// Source revision at configure time (12 hex digits), or "unknown" outside a git checkout. Builds
// without one may pass -DDSLIDE_REVISION=....
const char* Revision();

// Compiler and its version, e.g. "GNU 12.2.0".
const char* Compiler();

// "<binary> 0.1.0 (revision, compiler)": the line that --version prints.
std::string VersionLine(const char* binary);

}  // namespace dslide
