// One object of a cache as files: the part that is read, and what it becomes.

#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/objects/object_source.h"

namespace dslide {

// SystemError(), whose Unavailable is for servers: a file that cannot be written is a wrong folder.
absl::Status CacheError(absl::string_view what, const std::string& path, int error);

// NAME is a whole object, .NAME.version what the store said of it; .NAME.part and
// .NAME.part.version are of one that is being read. Not thread-safe; one process at a time.
class ObjectPart final : public ObjectSink {
 public:
  struct Hooks {
    // Before bytes are written: may refuse so many.
    std::function<absl::Status(int64_t bytes)> make_room;
    std::function<void(int64_t done_bytes, int64_t total_bytes)> progress;
  };

  // Looks at what is there. A part of a time before the machine was started is not trusted.
  ObjectPart(const std::string& folder, const std::string& name, Hooks hooks);
  ~ObjectPart() override;
  ObjectPart(const ObjectPart&) = delete;
  ObjectPart& operator=(const ObjectPart&) = delete;

  const std::string& path() const { return path_; }
  // Of the part, or else of the whole file.
  const ObjectVersion& version() const { return version_; }
  int64_t bytes() const { return bytes_; }

  absl::Status Begin(const ObjectVersion& version, int64_t offset) override;
  absl::Status Append(absl::string_view bytes) override;
  // The part is whole: it takes the place of the file. Nothing if there is no part.
  absl::Status Publish();
  // The store has it no more.
  void Remove();

 private:
  const std::string path_;
  const std::string version_path_;
  const std::string part_path_;
  const std::string part_version_path_;
  const Hooks hooks_;
  ObjectVersion version_;
  int64_t bytes_ = 0;
  bool is_part_ = false;
  int fd_ = -1;  // of the part
};

// The bytes that the objects of a folder take, or will take when they are whole. Without the part
// of the object `but_part_of`, unless that is "".
int64_t ObjectBytesIn(const std::string& folder, absl::string_view but_part_of);

}  // namespace dslide
