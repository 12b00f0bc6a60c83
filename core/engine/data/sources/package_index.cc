#include "core/engine/data/sources/package_index.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/engine/data/data_file.h"
#include "core/engine/data/parse_error.h"
#include "core/engine/data/sources/apt_lists.h"

namespace dslide {
namespace {

absl::string_view Trimmed(absl::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == absl::string_view::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

bool IsIndexName(absl::string_view name) {
  return absl::EndsWith(name, "_Packages") || name == "Packages";
}

// One paragraph while its lines are read.
struct Draft {
  PackageParagraph package;
  std::string dependencies;
  std::string* open_field = nullptr;  // takes continuation lines; null: a field of no interest
  bool any_field = false;
};

absl::Status FinishParagraph(const std::string& path, int64_t line, Draft* draft,
                             std::vector<PackageParagraph>* packages) {
  if (draft->any_field) {
    if (draft->package.name.empty()) {
      return ParseError(path, line, {1, "the end of a paragraph", "a Package field in it"});
    }
    if (draft->package.source.empty()) draft->package.source = draft->package.name;
    draft->package.dependencies = DependencyNames(draft->dependencies);
    packages->push_back(std::move(draft->package));
  }
  *draft = Draft();
  return absl::OkStatus();
}

absl::Status AddLine(const std::string& path, int64_t line_number, absl::string_view line,
                     Draft* draft) {
  if (line[0] == ' ' || line[0] == '\t') {
    if (draft->open_field != nullptr) absl::StrAppend(draft->open_field, " ", Trimmed(line));
    return absl::OkStatus();
  }
  const size_t colon = line.find(':');
  if (colon == absl::string_view::npos || colon == 0) {
    return ParseError(path, line_number,
                      {1, QuoteFound(line), "Field: value (is this an apt package index?)"});
  }
  const absl::string_view field = line.substr(0, colon);
  const absl::string_view value = Trimmed(line.substr(colon + 1));
  draft->any_field = true;
  draft->open_field = nullptr;
  if (field == "Package") {
    draft->package.name = std::string(value);
  } else if (field == "Source") {
    draft->package.source =
        std::string(value.substr(0, value.find_first_of(" (")));  // a version follows
  } else if (field == "Description") {
    draft->package.description = std::string(value);  // its further lines are the long form
  } else if (field == "Depends" || field == "Recommends") {
    absl::StrAppend(&draft->dependencies, draft->dependencies.empty() ? "" : ", ", value);
    draft->open_field = &draft->dependencies;
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> DependencyNames(absl::string_view field) {
  std::vector<std::string> names;
  while (!field.empty()) {
    const size_t comma = std::min(field.find(','), field.size());
    absl::string_view item = Trimmed(field.substr(0, comma));
    item = item.substr(0, item.find_first_of(" \t(|[<:"));
    if (!item.empty()) names.emplace_back(item);
    field.remove_prefix(std::min(comma + 1, field.size()));
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

absl::Status ParsePackageIndex(const std::string& path, absl::string_view text,
                               std::vector<PackageParagraph>* packages) {
  Draft draft;
  int64_t line_number = 0;
  while (!text.empty()) {
    ++line_number;
    const size_t stop = std::min(text.find('\n'), text.size());
    const absl::string_view line = text.substr(0, stop);
    text.remove_prefix(std::min(stop + 1, text.size()));
    if (Trimmed(line).empty()) {
      RETURN_IF_ERROR(FinishParagraph(path, line_number, &draft, packages));
    } else {
      RETURN_IF_ERROR(AddLine(path, line_number, line, &draft));
    }
  }
  return FinishParagraph(path, line_number, &draft, packages);
}

absl::StatusOr<std::vector<std::string>> ListPackageIndex(const std::string& lists_dir) {
  ASSIGN_OR_RETURN(std::vector<std::string> names, ListAptFiles(lists_dir, IsIndexName));
  if (names.empty()) {
    return absl::NotFoundError(
        absl::StrCat("no apt package index (*_Packages) in ", lists_dir,
                     "; run `apt-get update`, or generate a synthetic set with `dslide data gen`"));
  }
  return names;
}

absl::StatusOr<std::vector<PackageParagraph>> ReadPackageIndex(
    const std::string& lists_dir, const std::vector<std::string>& files, Parallelism parallelism) {
  std::vector<std::vector<PackageParagraph>> parts(files.size());
  std::vector<absl::Status> statuses(files.size());
  ParallelFor(parallelism, static_cast<int64_t>(files.size()), 1, [&](int64_t i, int) {
    const size_t f = static_cast<size_t>(i);
    const std::string path = absl::StrCat(lists_dir, "/", files[f]);
    const absl::StatusOr<DataFile> file = DataFile::Open(path);
    statuses[f] = file.ok() ? ParsePackageIndex(path, file->bytes(), &parts[f]) : file.status();
  });
  for (const absl::Status& status : statuses) RETURN_IF_ERROR(status);
  std::vector<PackageParagraph> packages;
  absl::flat_hash_set<std::string> seen;
  for (std::vector<PackageParagraph>& part : parts) {
    for (PackageParagraph& package : part) {
      if (seen.insert(package.name).second) packages.push_back(std::move(package));
    }
  }
  std::sort(packages.begin(), packages.end(),
            [](const PackageParagraph& a, const PackageParagraph& b) { return a.name < b.name; });
  return packages;
}

}  // namespace dslide
