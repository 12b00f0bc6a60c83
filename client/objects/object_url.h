// Where an object lies that a store hands out over HTTP.

#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dslide {

enum class ObjectStoreKind { kHttp, kS3, kGcs };

struct ObjectUrl {
  ObjectStoreKind kind = ObjectStoreKind::kHttp;
  std::string shown = {};    // as it was given, without a query, which may be a key: for messages
  std::string bucket = {};   // of s3 and gs
  std::string key = {};      // of s3 and gs, as the store has it: nothing is escaped
  std::string address = {};  // of http: all of it
  std::string folder = {};   // `shown` up to its last slash
  std::string name = {};     // what follows
  bool has_query = false;    // which belongs to this object alone
};

// Whether a path of the command line has a scheme, known or not: "s3://bucket/train.txt".
bool IsObjectUrl(absl::string_view path);

// "s3://bucket/key", "gs://bucket/key", "http(s)://host/path". Errors: InvalidArgument showing the
// URL and the forms; also for one that holds a password, which would end up in logs.
absl::StatusOr<ObjectUrl> ParseObjectUrl(absl::string_view text);

// The object `name` in the same folder. Requires one without a query.
ObjectUrl ObjectBeside(const ObjectUrl& url, absl::string_view name);

// Percent-encodes all but letters, digits and "-._~/".
std::string EscapeObjectKey(absl::string_view key);

}  // namespace dslide
