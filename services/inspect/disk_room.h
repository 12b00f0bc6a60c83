// Room on the disk of a directory. Internal to this folder.

#pragma once

#include <cstdint>
#include <string>

#include "core/system/finding.h"

namespace dslide {

// Bytes of all files below a directory.
int64_t TreeBytes(const std::string& path);

// Says whether `needed` more bytes fit: what the next image or checkpoint takes.
void ExamineRoom(const std::string& path, int64_t needed, Findings& findings);

}  // namespace dslide
