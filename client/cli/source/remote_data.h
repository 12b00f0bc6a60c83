// Data that lies in an object store, as a file of this machine.

#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dslide::cli {

struct LocalData {
  std::string path = {};   // of the file
  std::string shown = {};  // what the user knows it as
};

// What may lie beside data: of each name the first form that is there.
using NamesBeside = std::vector<std::vector<std::string>>;
// features.txt and labels.txt, compressed or not, and tokenizer.json.
NamesBeside NamesOfSparseData();

// `data`: a path, which stays as it is, or a URL, whose object is read into a cache unless its
// newest version is there; as long as this process lives, nobody removes it from there. Of what
// lies `beside` it, what this user may read comes along. The environment says how: what
// object_access.h tells of, and
//
//   DSLIDE_DATA_CACHE       the cache's folder; one of this user in $TMPDIR, or in /tmp
//   DSLIDE_DATA_CACHE_SIZE  what it may hold; 64GiB
//   DSLIDE_DATA_PATIENCE    how long a store may be away, or slower than 1 KiB/s; 10s
//
// Thread safety: one thread at a time.
// Errors: those of ObjectCache, naming the URL; InvalidArgument naming the variable.
absl::StatusOr<LocalData> FetchData(const std::string& data, const NamesBeside& beside = {});

// Text that names files of the cache, by their URLs.
std::string ShownAs(const LocalData& data, absl::string_view text);
absl::Status ShownAs(const LocalData& data, const absl::Status& status);

}  // namespace dslide::cli
