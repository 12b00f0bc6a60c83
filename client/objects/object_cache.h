// Objects of stores as files, read once for all processes that share a folder.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/objects/object_source.h"
#include "client/objects/object_url.h"

namespace dslide {

struct ObjectCacheOptions {
  std::string directory;  // made when absent; one that many users may write to is refused
  // Of all objects together. What nobody uses goes, least recently used first. At least 1.
  int64_t max_bytes = int64_t{64} << 30;
  std::function<bool()> stop_requested = {};  // may be empty
  // Called now and then with the bytes that are there and those of the object, -1 if unknown.
  std::function<void(const std::string& url, int64_t done_bytes, int64_t total_bytes)> progress =
      {};
  std::function<void(const std::string& text)> note = {};  // for people; may be empty
};

// Beside each other lie objects of one folder of a store, under their names. A part of an object
// stays when the process dies; who comes next goes on with it. Processes that want the same object
// wait for the one that reads it.
//
// Thread safety: not thread-safe; any number of processes may share a directory.
class ObjectCache {
 public:
  // `source` must outlive the cache. Errors: InvalidArgument, system errors; all name the folder.
  static absl::StatusOr<std::unique_ptr<ObjectCache>> Open(ObjectCacheOptions options,
                                                           ObjectSource& source);

  // An object's file. It is the newest version at the time of the call, and is neither changed nor
  // removed while `lease` lives; a newer version would be another file of the same name.
  struct File {
    std::string path = {};
    std::shared_ptr<const void> lease = {};  // shared by all that read it
  };

  // Errors: those of ObjectSource::Read(); InvalidArgument when it is larger than `max_bytes`, or
  // all that is there is in use; ResourceExhausted DISK_FULL; system errors naming the path.
  absl::StatusOr<File> Fetch(const ObjectUrl& url);

 private:
  ObjectCache(ObjectCacheOptions options, ObjectSource& source)
      : options_(std::move(options)), source_(source) {}

  const ObjectCacheOptions options_;
  ObjectSource& source_;
};

}  // namespace dslide
