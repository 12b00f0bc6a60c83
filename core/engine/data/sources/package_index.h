// Reads apt's package index: paragraphs of `Field: value` lines, one per package.

#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/parallel.h"

namespace dslide {

// The fields that the data set is made of.
struct PackageParagraph {
  std::string name;
  std::string source;                     // its source package; of the same name when not said
  std::string description;                // the first line of it
  std::vector<std::string> dependencies;  // Depends and Recommends; sorted, distinct
};

// The names (without folder) of the index files in `lists_dir`: *_Packages, plain or with .lz4,
// .gz, .xz, .zst; sorted. Errors: NotFound with the remedy when there are none.
absl::StatusOr<std::vector<std::string>> ListPackageIndex(const std::string& lists_dir);

// The packages of all files, sorted by name; a name in several files counts once, as in the first.
// Errors: those of DataFile::Open(); InvalidArgument naming file and line of a malformed paragraph.
absl::StatusOr<std::vector<PackageParagraph>> ReadPackageIndex(
    const std::string& lists_dir, const std::vector<std::string>& files, Parallelism parallelism);

// Appends the packages of one index text to *packages. `path` is for messages.
absl::Status ParsePackageIndex(const std::string& path, absl::string_view text,
                               std::vector<PackageParagraph>* packages);

// The names in a dependency field: of `a (>= 1) | b, c:any` these are a and c.
std::vector<std::string> DependencyNames(absl::string_view field);

}  // namespace dslide
