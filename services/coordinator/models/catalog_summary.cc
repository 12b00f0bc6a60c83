#include "services/coordinator/models/catalog_summary.h"

#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "core/base/crc32c.h"
#include "core/base/status_macros.h"
#include "core/system/format_version.h"
#include "core/system/sealed_text.h"
#include "services/common/files/durable_files.h"

namespace dslide::coordinator {
namespace {

// The version is behind it.
constexpr char kCatalogSummaryHeadWord[] = "dslide catalog ";
constexpr int64_t kCatalogSummaryFormat = 1;

std::string LineOf(const CatalogSummary::Records& records) {
  uint32_t crc = 0;
  for (const auto& [key, value] : records) {
    crc = ExtendCrc32c(crc, absl::StrCat(key.size(), " ", value.size(), " ", key, value));
  }
  return absl::StrFormat("%d records %08x", records.size(), crc);
}

std::string EncodeSummary(const std::string& present, const std::string& before) {
  return SealText(absl::StrCat(kCatalogSummaryHeadWord, kCatalogSummaryFormat, "\n", present, "\n",
                               before, "\n"));
}

// Whether the file at `path` speaks of these records; a missing one speaks of any.
absl::Status CompareWith(const std::string& path, const CatalogSummary::Records& records) {
  const std::string found = LineOf(records);
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (absl::IsNotFound(text.status())) return absl::OkStatus();
  RETURN_IF_ERROR(text.status());
  const std::vector<std::string> lines = absl::StrSplit(*text, '\n');
  RETURN_IF_ERROR(
      CheckSealedFormat(path, *text, kCatalogSummaryHeadWord,
                        {.oldest = kCatalogSummaryFormat, .newest = kCatalogSummaryFormat}));
  // Whatever was changed encodes differently.
  if (lines.size() < 3 || EncodeSummary(lines[1], lines[2]) != *text) {
    return absl::DataLossError(absl::StrCat(
        path,
        " does not have its checksum; restore the data directory from a copy, or remove this "
        "file to trust the catalogue as it is"));
  }
  if (found != lines[1] && found != lines[2]) {
    return absl::DataLossError(
        absl::StrCat("the catalogue has ", found, ", but it was written with ", lines[1],
                     ": a part of it is lost; restore the data directory from a copy, or remove ",
                     path, " to go on with what is there"));
  }
  return absl::OkStatus();
}

std::string PathIn(const std::string& data_dir) {
  return absl::StrCat(data_dir, "/catalog-summary");
}

}  // namespace

CatalogSummary::CatalogSummary(const std::string& data_dir)
    : path_(PathIn(data_dir)), present_(LineOf({})) {}

absl::Status CatalogSummary::Check(const Records& records) {
  RETURN_IF_ERROR(CompareWith(path_, records));
  present_ = LineOf(records);
  std::error_code error;
  if (std::filesystem::exists(path_, error)) return absl::OkStatus();
  return ReplaceFile(path_, EncodeSummary(present_, present_));
}

absl::Status CatalogSummary::Compare(const std::string& data_dir, const Records& records) {
  return CompareWith(PathIn(data_dir), records);
}

absl::Status CatalogSummary::Announce(const Records& records) {
  announced_ = LineOf(records);
  return ReplaceFile(path_, EncodeSummary(announced_, present_));
}

}  // namespace dslide::coordinator
