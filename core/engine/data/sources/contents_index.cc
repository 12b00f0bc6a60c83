#include "core/engine/data/sources/contents_index.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/status_macros.h"
#include "core/engine/data/data_file.h"
#include "core/engine/data/name_list.h"
#include "core/engine/data/parse_error.h"
#include "core/engine/data/sources/apt_lists.h"
#include "core/system/content_hash.h"

namespace dslide {
namespace {

constexpr absl::string_view kBlanks = " \t\r";
constexpr int kPlaceBits = 40;
constexpr uint64_t kPlaceMask = (uint64_t{1} << kPlaceBits) - 1;

bool IsContentsName(absl::string_view name) {
  name.remove_prefix(name.rfind('_') + 1);  // npos + 1 is 0
  return absl::ConsumePrefix(&name, "Contents-") && !name.empty() &&
         !absl::StartsWith(name, "udeb-") && name != "source";
}

absl::string_view AfterLastSlash(absl::string_view text) {
  return text.substr(text.rfind('/') + 1);
}

// `line`, or its end, without the last column; "" when there is only one.
absl::string_view PathColumn(absl::string_view line) {
  const size_t stop = line.find_last_not_of(kBlanks);
  if (stop == absl::string_view::npos) return "";
  const size_t blank = line.find_last_of(kBlanks, stop);
  if (blank == absl::string_view::npos) return "";
  return line.substr(0, line.find_last_not_of(kBlanks, blank) + 1);
}

// One package of one line. Sorted, equal names lie together, the packages of each ascending.
struct Shipping {
  uint64_t name_hash = 0;
  uint64_t package_and_place = 0;  // 24 and 40 bits; where the name begins in all files together

  uint32_t package() const { return static_cast<uint32_t>(package_and_place >> kPlaceBits); }
  uint64_t place() const { return package_and_place & kPlaceMask; }
};

using PackageIds = absl::flat_hash_map<absl::string_view, uint32_t>;

// Of one file, which begins at `first_place`.
absl::Status CollectShippings(const std::string& path, absl::string_view text, uint64_t first_place,
                              const PackageIds& ids, std::vector<Shipping>* shippings) {
  const char* last_name = nullptr;  // the packages of a line come one after the other
  uint64_t hash = 0;
  return ParseContentsIndex(path, text, [&](absl::string_view name, absl::string_view package) {
    const auto found = ids.find(package);
    if (found == ids.end()) return;
    if (name.data() != last_name) hash = HashContent(0, name);
    last_name = name.data();
    const uint64_t place = first_place + static_cast<uint64_t>(name.data() - text.data());
    shippings->push_back({hash, uint64_t{found->second} << kPlaceBits | place});
  });
}

// The mapped files, one behind the other.
class ContentsText {
 public:
  static absl::StatusOr<ContentsText> Open(const std::string& lists_dir,
                                           const std::vector<std::string>& names) {
    ContentsText text;
    uint64_t size = 0;
    for (const std::string& name : names) {
      ASSIGN_OR_RETURN(DataFile file, DataFile::Open(absl::StrCat(lists_dir, "/", name)));
      text.starts_.push_back(size);
      size += static_cast<uint64_t>(file.size());
      text.files_.push_back(std::move(file));
    }
    if (size <= kPlaceMask) return text;
    return absl::InvalidArgumentError(absl::StrCat("the Contents index in ", lists_dir, " has ",
                                                   size, " bytes, more than ", kPlaceMask));
  }

  // Sorted.
  absl::StatusOr<std::vector<Shipping>> Shippings(const PackageIds& ids) const {
    std::vector<Shipping> shippings;
    for (size_t f = 0; f < files_.size(); ++f) {
      RETURN_IF_ERROR(
          CollectShippings(files_[f].path(), files_[f].bytes(), starts_[f], ids, &shippings));
    }
    std::sort(shippings.begin(), shippings.end(), [](const Shipping& a, const Shipping& b) {
      return a.name_hash != b.name_hash ? a.name_hash < b.name_hash
                                        : a.package_and_place < b.package_and_place;
    });
    return shippings;
  }

  absl::string_view NameAt(uint64_t place) const {
    const auto next = std::upper_bound(starts_.begin(), starts_.end(), place);
    const auto f = static_cast<size_t>(next - starts_.begin() - 1);
    const absl::string_view rest = files_[f].bytes().substr(place - starts_[f]);
    return PathColumn(rest.substr(0, rest.find('\n')));
  }

 private:
  std::vector<DataFile> files_;
  std::vector<uint64_t> starts_;  // [files] ascending
};

}  // namespace

absl::StatusOr<std::vector<std::string>> ListContentsIndex(const std::string& lists_dir) {
  ASSIGN_OR_RETURN(std::vector<std::string> names, ListAptFiles(lists_dir, IsContentsName));
  if (!names.empty()) return names;
  return absl::NotFoundError(
      absl::StrCat("no apt Contents index (*_Contents-*) in ", lists_dir,
                   ", which says what files packages ship; apt-get update fetches it when asked: ",
                   "see --fetch of `dslide data debian-files`"));
}

absl::Status ParseContentsIndex(
    const std::string& path, absl::string_view text,
    absl::FunctionRef<void(absl::string_view name, absl::string_view package)> visit) {
  LineReader reader(text);
  absl::string_view line;
  while (reader.Next(&line)) {
    const size_t stop = line.find_last_not_of(kBlanks);
    if (stop == absl::string_view::npos) continue;
    line = line.substr(0, stop + 1);
    const absl::string_view file = PathColumn(line);
    absl::string_view packages = line.substr(line.find_last_of(kBlanks) + 1);
    if (file.empty()) {
      return ParseError(path, reader.line_number(),
                        {1, QuoteFound(line), "a path, blanks and section/package,..."});
    }
    const absl::string_view name = AfterLastSlash(file);
    while (!packages.empty()) {
      const size_t comma = std::min(packages.find(','), packages.size());
      const absl::string_view package = AfterLastSlash(packages.substr(0, comma));
      if (package.empty()) {
        return ParseError(
            path, reader.line_number(),
            {packages.data() - line.data() + 1, QuoteFound(packages), "section/package,..."});
      }
      if (!name.empty()) visit(name, package);
      packages.remove_prefix(std::min(comma + 1, packages.size()));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ShippedName>> ReadShippedNames(const std::string& lists_dir,
                                                          const std::vector<std::string>& files,
                                                          const std::vector<std::string>& packages,
                                                          int64_t min_packages,
                                                          int64_t max_packages) {
  if (packages.size() > (uint64_t{1} << (64 - kPlaceBits))) {
    return absl::InvalidArgumentError(
        absl::StrCat("an index of ", packages.size(), " packages: more than 2^24"));
  }
  PackageIds ids;
  for (const std::string& package : packages) {
    ids.emplace(package, static_cast<uint32_t>(ids.size()));
  }
  ASSIGN_OR_RETURN(const ContentsText text, ContentsText::Open(lists_dir, files));
  ASSIGN_OR_RETURN(const std::vector<Shipping> shippings, text.Shippings(ids));
  std::vector<ShippedName> names;
  for (size_t begin = 0; begin < shippings.size();) {
    size_t end = begin;
    std::vector<uint32_t> shippers;
    for (; end < shippings.size() && shippings[end].name_hash == shippings[begin].name_hash;
         ++end) {
      const uint32_t package = shippings[end].package();
      if (shippers.empty() || shippers.back() != package) shippers.push_back(package);
    }
    const auto count = static_cast<int64_t>(shippers.size());
    if (count >= min_packages && count <= max_packages) {
      names.push_back({std::string(text.NameAt(shippings[begin].place())), std::move(shippers)});
    }
    begin = end;
  }
  std::sort(names.begin(), names.end(),
            [](const ShippedName& a, const ShippedName& b) { return a.name < b.name; });
  return names;
}

}  // namespace dslide
