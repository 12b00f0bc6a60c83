#include "client/cli/source/remote_data.h"

#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/cli/console/interrupt.h"
#include "client/cli/console/terminal.h"
#include "client/objects/object_access.h"
#include "client/objects/object_cache.h"
#include "client/objects/object_source.h"
#include "client/objects/object_url.h"
#include "core/base/clock.h"
#include "core/base/status_macros.h"
#include "core/base/units.h"

namespace dslide::cli {
namespace {

constexpr absl::Duration kReadingNoteEvery = absl::Seconds(3);  // often enough to be seen to live

std::string DefaultCache() {
  const char* parent = std::getenv("TMPDIR");
  return absl::StrCat(parent != nullptr && *parent != '\0' ? parent : "/tmp", "/dslide-data-",
                      geteuid());
}

std::function<void(const std::string& url, int64_t done_bytes, int64_t total_bytes)>
ReadingProgress() {
  return [next = SteadyClock().Now() + kReadingNoteEvery](
             const std::string& url, int64_t done_bytes, int64_t total_bytes) mutable {
    const absl::Duration now = SteadyClock().Now();
    if (now < next) return;
    next = now + kReadingNoteEvery;
    PrintNote(absl::StrCat(
        url, ": ", ReadableBytes(static_cast<double>(done_bytes)),
        total_bytes < 0 ? ""
                        : absl::StrCat(" of ", ReadableBytes(static_cast<double>(total_bytes))),
        " read"));
  };
}

std::string ValueOr(const std::string& variable, const std::string& otherwise) {
  std::string value = ProcessEnvironment(variable);
  return value.empty() ? otherwise : value;
}

absl::StatusOr<ObjectCacheOptions> CacheOptions() {
  ObjectCacheOptions cache{.directory = ValueOr("DSLIDE_DATA_CACHE", DefaultCache()),
                           .stop_requested = &InterruptGuard::Interrupted};
  const absl::StatusOr<int64_t> bytes = ParseByteSize(ValueOr("DSLIDE_DATA_CACHE_SIZE", "64GiB"));
  if (!bytes.ok() || *bytes < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("DSLIDE_DATA_CACHE_SIZE: ",
                     bytes.ok() ? "must be at least 1" : std::string(bytes.status().message())));
  }
  cache.max_bytes = *bytes;
  cache.note = [](const std::string& text) { PrintNote(text); };
  cache.progress = ReadingProgress();
  return cache;
}

absl::StatusOr<HttpObjectOptions> SourceOptions() {
  HttpObjectOptions source{.stop_requested = &InterruptGuard::Interrupted,
                           .note = [](const std::string& text) { PrintNote(text); }};
  const std::string text = ValueOr("DSLIDE_DATA_PATIENCE", "10s");
  const absl::StatusOr<absl::Duration> patience = ParseDuration(text);
  if (!patience.ok() || *patience < absl::Seconds(1) || *patience > absl::Hours(24)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "DSLIDE_DATA_PATIENCE: ", patience.ok() ? absl::StrCat(text, " is outside [1s, 24h]")
                                                : std::string(patience.status().message())));
  }
  source.patience = *patience;
  return source;
}

// Nothing that is not there, and nothing that this user may not see: stores say either of names
// that they do not have.
absl::Status FetchBeside(const ObjectUrl& url, const NamesBeside& beside, ObjectCache& cache) {
  if (url.has_query) return absl::OkStatus();  // it is for one object
  for (const std::vector<std::string>& forms : beside) {
    for (const std::string& name : forms) {
      absl::Status fetched = cache.Fetch(ObjectBeside(url, name)).status();
      if (fetched.ok()) break;
      if (!absl::IsNotFound(fetched) && !absl::IsPermissionDenied(fetched)) return fetched;
    }
  }
  return absl::OkStatus();
}

std::string CacheFolderOf(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }

}  // namespace

NamesBeside NamesOfSparseData() {
  NamesBeside names;
  for (const std::string name : {"features.txt", "labels.txt"}) {
    names.push_back(
        {name, name + ".xz", name + ".gz", name + ".zst", name + ".lz4", name + ".bz2"});
  }
  names.push_back({"tokenizer.json"});
  return names;
}

absl::StatusOr<LocalData> FetchData(const std::string& data, const NamesBeside& beside) {
  if (!IsObjectUrl(data)) return LocalData{.path = data, .shown = data};
  ASSIGN_OR_RETURN(const ObjectUrl url, ParseObjectUrl(data));
  ASSIGN_OR_RETURN(HttpObjectOptions source_options, SourceOptions());
  ASSIGN_OR_RETURN(ObjectCacheOptions cache_options, CacheOptions());
  HttpObjectSource source(std::move(source_options));
  ASSIGN_OR_RETURN(const std::unique_ptr<ObjectCache> cache,
                   ObjectCache::Open(std::move(cache_options), source));
  ASSIGN_OR_RETURN(const ObjectCache::File file, cache->Fetch(url));
  RETURN_IF_ERROR(FetchBeside(url, beside, *cache));
  // Of the process: data is mapped until its end.
  static std::vector<std::shared_ptr<const void>> leases;
  leases.push_back(file.lease);
  return LocalData{.path = file.path, .shown = url.shown};
}

std::string ShownAs(const LocalData& data, absl::string_view text) {
  if (data.path == data.shown) return std::string(text);
  return absl::StrReplaceAll(text, {{CacheFolderOf(data.path), CacheFolderOf(data.shown)}});
}

absl::Status ShownAs(const LocalData& data, const absl::Status& status) {
  if (status.ok() || data.path == data.shown) return status;
  absl::Status shown(status.code(), ShownAs(data, status.message()));
  status.ForEachPayload([&shown](absl::string_view type, const absl::Cord& payload) {
    shown.SetPayload(type, payload);
  });
  return shown;
}

}  // namespace dslide::cli
