// How a store is reached, and by whom: what the environment says.

#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/net/objects/object_transfer.h"
#include "core/net/objects/object_url.h"

namespace dslide {

// The value of a variable; "" when it is not set.
using Environment = std::function<std::string(const std::string& name)>;

// That of this process.
std::string ProcessEnvironment(const std::string& name);

// What is added to a request.
struct ObjectAccess {
  TransferRequest request = {};  // address, signature, headers that prove who asks
  std::string identity = {};     // for messages: "AWS_ACCESS_KEY_ID AKIA…"; "": nobody is named
  std::string remedy = {};       // where an identity comes from
};

// s3: AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN; else the token in
// AWS_WEB_IDENTITY_TOKEN_FILE for AWS_ROLE_ARN; else what AWS_CONTAINER_CREDENTIALS_FULL_URI or
// _RELATIVE_URI answers; else nobody, which is enough for public buckets. AWS_REGION or
// AWS_DEFAULT_REGION; AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, with the bucket in the path;
// AWS_CA_BUNDLE.
//
// gs: CLOUDSDK_AUTH_ACCESS_TOKEN, else the token of the machine's metadata server
// (GCE_METADATA_HOST), else nobody. STORAGE_EMULATOR_HOST.
//
// http: ~/.netrc. All: SSL_CERT_FILE; libcurl's variables for proxies.
//
// Errors: InvalidArgument naming the variable; PermissionDenied when a token is refused;
// Unavailable when who gives credentials does not answer.
absl::StatusOr<ObjectAccess> FindObjectAccess(const ObjectUrl& url, const Environment& environment,
                                              absl::Duration patience, ObjectTransfer& transfer);

// What stands between <tag> and </tag> first; "" when nothing does.
std::string XmlElement(absl::string_view xml, absl::string_view tag);

}  // namespace dslide
