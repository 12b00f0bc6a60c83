// How a store is reached, and by whom: what the environment says.

#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/objects/object_transfer.h"
#include "client/objects/object_url.h"

namespace dslide {

// The value of a variable; "" when it is not set.
using Environment = std::function<std::string(const std::string& name)>;

// That of this process.
std::string ProcessEnvironment(const std::string& name);

// Who asks a store.
struct StoreIdentity {
  std::string access_key = {};  // of s3
  std::string secret_key = {};  // of s3
  std::string token = {};       // of a session, or of Google
  std::string source = {};      // for messages: "AWS_ACCESS_KEY_ID AKIA…"; "": nobody is named
};

// s3: AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN; else the token in
// AWS_WEB_IDENTITY_TOKEN_FILE for AWS_ROLE_ARN; else what AWS_CONTAINER_CREDENTIALS_FULL_URI or
// _RELATIVE_URI answers; else nobody, which is enough for public buckets.
//
// gs: CLOUDSDK_AUTH_ACCESS_TOKEN, else the token of the machine's metadata server
// (GCE_METADATA_HOST), else nobody. http: nobody; AccessTo() lets libcurl look into ~/.netrc.
//
// Errors: InvalidArgument naming the variable; PermissionDenied when a token is refused;
// Unavailable when who gives credentials does not answer.
absl::StatusOr<StoreIdentity> FindIdentity(ObjectStoreKind kind, const Environment& environment,
                                           absl::Duration patience, ObjectTransfer& transfer);

struct ObjectAccess {
  TransferRequest request = {};  // address, signature, headers that prove who asks
  std::string remedy = {};       // where an identity comes from, for messages
};

// s3: AWS_REGION or AWS_DEFAULT_REGION; AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, with the bucket in
// the path; AWS_CA_BUNDLE. gs: STORAGE_EMULATOR_HOST. All: SSL_CERT_FILE; libcurl's variables for
// proxies. Errors: InvalidArgument naming the variable.
absl::StatusOr<ObjectAccess> AccessTo(const ObjectUrl& url, const StoreIdentity& identity,
                                      const Environment& environment);

// What stands between <tag> and </tag> first; "" when nothing does.
std::string XmlElement(absl::string_view xml, absl::string_view tag);

}  // namespace dslide
