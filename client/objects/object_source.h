// Reads objects of stores, over cut connections.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/objects/object_access.h"
#include "client/objects/object_transfer.h"
#include "client/objects/object_url.h"

namespace dslide {

// What a store says of an object's content.
struct ObjectVersion {
  std::string etag = {};           // with its quotes; "": the store has none
  std::string last_modified = {};  // as the store writes it
  int64_t size = -1;               // bytes; -1: the store does not say

  // Whether two answers may be parts of one content.
  bool operator==(const ObjectVersion&) const = default;
};

// Where the bytes of an object go.
class ObjectSink {
 public:
  virtual ~ObjectSink() = default;

  // Bytes of `version` follow, from `offset` on; what is there from before is good up to it and
  // wrong behind it. May be called again.
  virtual absl::Status Begin(const ObjectVersion& version, int64_t offset) = 0;
  virtual absl::Status Append(absl::string_view bytes) = 0;
};

class ObjectSource {
 public:
  virtual ~ObjectSource() = default;

  // Gives the sink what it lacks of an object, of which it has the first `have_bytes` of version
  // `have`; none of it when that is all and the object is the same still.
  //
  // Errors, each naming the URL: NotFound; PermissionDenied, naming who asked; InvalidArgument for
  // what the store does not take; Unavailable when it does not answer, is too slow, ends an answer
  // early again and again, or when the object changes while it is read; those of the sink;
  // Cancelled.
  virtual absl::Status Read(const ObjectUrl& url, const ObjectVersion& have, int64_t have_bytes,
                            ObjectSink& sink) = 0;
};

struct HttpObjectOptions {
  // With less than 64 KiB in so long, however often it was asked: given up. At least a second.
  absl::Duration patience = absl::Seconds(10);
  Environment environment = &ProcessEnvironment;
  std::function<bool()> stop_requested = {};               // may be empty
  std::function<void(const std::string& text)> note = {};  // for people; may be empty
};

// Not thread-safe.
class HttpObjectSource final : public ObjectSource {
 public:
  explicit HttpObjectSource(HttpObjectOptions options);

  absl::Status Read(const ObjectUrl& url, const ObjectVersion& have, int64_t have_bytes,
                    ObjectSink& sink) override;

 private:
  const HttpObjectOptions options_;
  ObjectTransfer transfer_;
  // Of the kind of store that was read last; asked for again when it is refused.
  ObjectStoreKind kind_ = ObjectStoreKind::kHttp;
  std::optional<StoreIdentity> identity_;
};

}  // namespace dslide
