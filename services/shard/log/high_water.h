// What a command log must have, remembered outside of it: without this, a log whose end was lost
// looks like a log that ended there.
//
// A file of two slots, each in a page of its own:
//
//   offset  bytes
//        0      8  magic "DSLHIGH1"
//        8      8  number of the write; of two good slots the higher one counts
//       16      8  first: the log has every record from this one
//       24      8  durable: ... to this one; 0: it may be empty
//       32      4  CRC-32C of the 32 bytes before it
//
// `durable` is written after the records are synced and before anybody is told, but the file is
// synced only now and then. A process that dies leaves the slot to the operating system, so after a
// crash of the process it names exactly what was promised. After a loss of power it is a lower
// bound, at most one sync of the file old. Between two syncs of the file only one of the slots
// changes, and the other one is on the disk: a write that was torn costs the newer slot at most.

#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace dslide::shard {

struct HighWater {
  uint64_t first = 1;
  uint64_t durable = 0;
  // One of the two slots is unreadable.
  bool half_damaged = false;
};

// Not thread-safe.
class HighWaterFile {
 public:
  // Makes a file whose slots are both `mark`, synced with its directory.
  // Errors: Unavailable with the system's reason.
  static absl::Status Create(const std::string& path, const HighWater& mark);

  // Errors: DataLoss when the file is missing or neither slot is good; FailedPrecondition when both
  // are of another format; Unavailable with the system's reason.
  static absl::StatusOr<HighWater> Read(const std::string& path);

  // Opens it to be written, and heals a damaged slot. Errors: as Read().
  static absl::StatusOr<std::unique_ptr<HighWaterFile>> Open(const std::string& path);

  ~HighWaterFile();

  const HighWater& mark() const { return mark_; }

  // Raises `durable`. Needs no space on the disk.
  absl::Status SetDurable(uint64_t durable);
  // Raises `first`, in both slots, synced: afterwards older records may go.
  absl::Status SetFirst(uint64_t first);
  // After an error nobody knows what the disk has, and a later success would not say: the file is
  // not to be used any more.
  absl::Status Sync();

 private:
  HighWaterFile(std::string path, int fd, HighWater mark, uint64_t number);

  absl::Status WriteSlot();

  const std::string path_;
  const int fd_;
  HighWater mark_;
  uint64_t number_;   // of the last write
  int64_t slot_ = 0;  // that is written until the next sync
};

}  // namespace dslide::shard
