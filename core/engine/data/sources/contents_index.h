// Reads apt's Contents index: a line per file that packages ship.
//
//   usr/share/doc/tiger/issue.net        admin/tiger
//   bin/live-boot                        misc/live-boot,admin/open-infrastructure-system-boot
//
// The last column names the packages, each behind its section; what stands before it is the path,
// which may hold blanks.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dslide {

// The names (without folder) of the index files in `lists_dir`: Contents-ARCHITECTURE, also behind
// apt's prefix and '_', plain or with .lz4, .gz, .xz, .zst; sorted. Those of source packages and of
// the installer (udeb) are left out. Errors: NotFound with the remedy when there are none.
absl::StatusOr<std::vector<std::string>> ListContentsIndex(const std::string& lists_dir);

// Calls visit(base name, package) for each package of each line, in text order; lines whose path
// has no base name are passed over. The views are into `text`. `path` is for messages.
// Errors: InvalidArgument naming file and line of a line without a path or without a package.
absl::Status ParseContentsIndex(
    const std::string& path, absl::string_view text,
    absl::FunctionRef<void(absl::string_view name, absl::string_view package)> visit);

// A base name and who ships it.
struct ShippedName {
  std::string name;
  std::vector<uint32_t> packages;  // indices, strictly ascending
};

// The base names that `min_packages` to `max_packages` different packages of all files ship, by
// name. Packages that are not in `packages` (sorted) are passed over.
//
// Files are unpacked and mapped (DataFile); beside them 16 bytes are kept for each package of each
// line, up to three times that while they are collected: 120 MB of Debian 12's 7.3 million lines.
// Names are compared by 64-bit hashes: that two of 4 million share one has a chance of 1 in 2
// million.
//
// Errors: those of DataFile::Open() and ParseContentsIndex(); InvalidArgument beyond 2^24 packages
// or 2^40 bytes.
absl::StatusOr<std::vector<ShippedName>> ReadShippedNames(const std::string& lists_dir,
                                                          const std::vector<std::string>& files,
                                                          const std::vector<std::string>& packages,
                                                          int64_t min_packages,
                                                          int64_t max_packages);

}  // namespace dslide
