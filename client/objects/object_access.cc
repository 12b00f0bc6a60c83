#include "client/objects/object_access.h"

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "core/base/status_macros.h"

namespace dslide {
namespace {

constexpr absl::Duration kMetadataPatience = absl::Seconds(2);  // a server of this machine, if any
constexpr char kAwsRemedy[] =
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_ROLE_ARN and "
    "AWS_WEB_IDENTITY_TOKEN_FILE; the region is AWS_REGION, another store AWS_ENDPOINT_URL";
constexpr char kGoogleRemedy[] =
    "set CLOUDSDK_AUTH_ACCESS_TOKEN (gcloud auth print-access-token), or run with a service "
    "account that may read it";
constexpr char kHttpRemedy[] = "put a login for this host into ~/.netrc, or ask for another URL";

// The first variable that is set.
std::string FirstOf(const Environment& environment, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (std::string value = environment(name); !value.empty()) return value;
  }
  return "";
}

absl::StatusOr<std::string> ReadToken(const std::string& path, absl::string_view variable) {
  std::ifstream file(path);
  std::ostringstream content;
  content << file.rdbuf();
  const std::string token(absl::StripAsciiWhitespace(content.str()));
  if (file && !token.empty()) return token;
  return absl::InvalidArgumentError(
      absl::StrCat(variable, " ", path, " cannot be read or is empty: mount the token there"));
}

// Why whoever hands out credentials did not.
absl::Status Refusal(absl::string_view who, const TransferAnswer& answer) {
  RETURN_IF_ERROR(answer.refused);
  if (answer.code == 0 || answer.code >= 500) {
    return absl::UnavailableError(
        absl::StrCat(who, " did not answer: ",
                     answer.failure.empty() ? absl::StrCat("HTTP ", answer.code) : answer.failure));
  }
  const std::string said = XmlElement(answer.body, "Message");
  return absl::PermissionDeniedError(
      absl::StrCat(who, " gave no credentials: HTTP ", answer.code, said.empty() ? "" : " ", said));
}

std::string RegionOf(const Environment& environment) {
  std::string region = FirstOf(environment, {"AWS_REGION", "AWS_DEFAULT_REGION"});
  return region.empty() ? "us-east-1" : region;
}

absl::StatusOr<StoreIdentity> KeysOfRole(const Environment& environment, absl::Duration patience,
                                         ObjectTransfer& transfer) {
  const std::string role = environment("AWS_ROLE_ARN");
  if (role.empty()) {
    return absl::InvalidArgumentError(
        "AWS_WEB_IDENTITY_TOKEN_FILE is set and AWS_ROLE_ARN is not: name the role");
  }
  ASSIGN_OR_RETURN(const std::string token, ReadToken(environment("AWS_WEB_IDENTITY_TOKEN_FILE"),
                                                      "AWS_WEB_IDENTITY_TOKEN_FILE"));
  std::string endpoint = FirstOf(environment, {"AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL"});
  if (endpoint.empty())
    endpoint = absl::StrCat("https://sts.", RegionOf(environment), ".amazonaws.com");
  const TransferAnswer answer = transfer.Perform(TransferRequest{
      .url = absl::StrCat(absl::StripSuffix(endpoint, "/"), "/"),
      .post = absl::StrCat("Action=AssumeRoleWithWebIdentity&Version=2011-06-15",
                           "&RoleSessionName=dslide&RoleArn=", EscapeObjectKey(role),
                           "&WebIdentityToken=", EscapeObjectKey(token)),
      .ca_file = FirstOf(environment, {"AWS_CA_BUNDLE", "SSL_CERT_FILE"}),
      .patience = patience});
  StoreIdentity keys{.access_key = XmlElement(answer.body, "AccessKeyId"),
                     .secret_key = XmlElement(answer.body, "SecretAccessKey"),
                     .token = XmlElement(answer.body, "SessionToken"),
                     .source = absl::StrCat("AWS_ROLE_ARN ", role)};
  if (answer.code == 200 && !keys.access_key.empty()) return keys;
  return Refusal(absl::StrCat(endpoint, " (AWS_ROLE_ARN ", role, ")"), answer);
}

absl::StatusOr<StoreIdentity> KeysOfContainer(const Environment& environment,
                                              absl::Duration patience, ObjectTransfer& transfer) {
  std::string address = environment("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  if (address.empty()) {
    address =
        absl::StrCat("http://169.254.170.2", environment("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"));
  }
  std::string token = environment("AWS_CONTAINER_AUTHORIZATION_TOKEN");
  if (const std::string file = environment("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
      !file.empty()) {
    ASSIGN_OR_RETURN(token, ReadToken(file, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"));
  }
  TransferRequest request{.url = address, .patience = patience};
  if (!token.empty()) request.headers.push_back(absl::StrCat("Authorization: ", token));
  const TransferAnswer answer = transfer.Perform(request);
  const auto json = nlohmann::json::parse(answer.body, nullptr, false);
  if (answer.code != 200 || !json.is_object()) return Refusal(address, answer);
  return StoreIdentity{.access_key = json.value("AccessKeyId", ""),
                       .secret_key = json.value("SecretAccessKey", ""),
                       .token = json.value("Token", ""),
                       .source = address};
}

absl::StatusOr<StoreIdentity> FindAwsIdentity(const Environment& environment,
                                              absl::Duration patience, ObjectTransfer& transfer) {
  StoreIdentity keys{.access_key = environment("AWS_ACCESS_KEY_ID"),
                     .secret_key = environment("AWS_SECRET_ACCESS_KEY"),
                     .token = environment("AWS_SESSION_TOKEN")};
  if (keys.access_key.empty() != keys.secret_key.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        keys.access_key.empty() ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID", " is set and ",
        keys.access_key.empty() ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY",
        " is not: set both, or none for a public bucket"));
  }
  keys.source = absl::StrCat("AWS_ACCESS_KEY_ID ", keys.access_key);
  if (!keys.access_key.empty()) return keys;
  if (!environment("AWS_WEB_IDENTITY_TOKEN_FILE").empty()) {
    return KeysOfRole(environment, patience, transfer);
  }
  if (!FirstOf(environment,
               {"AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"})
           .empty()) {
    return KeysOfContainer(environment, patience, transfer);
  }
  return StoreIdentity();
}

absl::StatusOr<StoreIdentity> FindGoogleIdentity(const Environment& environment,
                                                 ObjectTransfer& transfer) {
  StoreIdentity identity{.token = environment("CLOUDSDK_AUTH_ACCESS_TOKEN"),
                         .source = "CLOUDSDK_AUTH_ACCESS_TOKEN"};
  if (!identity.token.empty()) return identity;
  std::string host = environment("GCE_METADATA_HOST");
  if (host.empty() && !environment("STORAGE_EMULATOR_HOST").empty()) return StoreIdentity();
  if (host.empty()) host = "metadata.google.internal";
  const TransferAnswer answer = transfer.Perform(TransferRequest{
      .url = absl::StrCat("http://", host,
                          "/computeMetadata/v1/instance/service-accounts/default/token"),
      .headers = {"Metadata-Flavor: Google"},
      .patience = kMetadataPatience});
  RETURN_IF_ERROR(answer.refused);
  const auto json = nlohmann::json::parse(answer.body, nullptr, false);
  if (answer.code != 200 || !json.is_object()) return StoreIdentity();  // no machine of Google
  return StoreIdentity{.token = json.value("access_token", ""),
                       .source = absl::StrCat("the service account of ", host)};
}

absl::StatusOr<ObjectAccess> S3Access(const ObjectUrl& url, const StoreIdentity& identity,
                                      const Environment& environment) {
  const std::string region = RegionOf(environment);
  ObjectAccess access{.remedy = kAwsRemedy};
  TransferRequest& request = access.request;
  const std::string endpoint = FirstOf(environment, {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"});
  const std::string key = EscapeObjectKey(url.key);
  if (!endpoint.empty()) {
    if (!IsObjectUrl(endpoint)) {
      return absl::InvalidArgumentError(
          absl::StrCat("AWS_ENDPOINT_URL ", endpoint, ": expected https://HOST or http://HOST"));
    }
    request.url = absl::StrCat(absl::StripSuffix(endpoint, "/"), "/", url.bucket, "/", key);
  } else if (absl::StrContains(url.bucket, '.')) {  // no certificate is for such a host
    request.url = absl::StrCat("https://s3.", region, ".amazonaws.com/", url.bucket, "/", key);
  } else {
    request.url = absl::StrCat("https://", url.bucket, ".s3.", region, ".amazonaws.com/", key);
  }
  request.ca_file = environment("AWS_CA_BUNDLE");
  if (identity.access_key.empty()) return access;
  for (const absl::string_view part : absl::StrSplit(url.key, '/')) {
    if (part != "." && part != "..") continue;
    return absl::InvalidArgumentError(
        absl::StrCat("s3://", url.bucket, "/", url.key, ": a part of its key is \"", part,
                     "\", which no signed request can ask for: give the object another key"));
  }
  request.aws_sigv4 = absl::StrCat("aws:amz:", region, ":s3");
  request.access_key = identity.access_key;
  request.secret_key = identity.secret_key;
  request.headers.push_back("x-amz-content-sha256: UNSIGNED-PAYLOAD");
  if (!identity.token.empty()) {
    request.headers.push_back(absl::StrCat("x-amz-security-token: ", identity.token));
  }
  return access;
}

ObjectAccess GcsAccess(const ObjectUrl& url, const StoreIdentity& identity,
                       const Environment& environment) {
  ObjectAccess access{.remedy = kGoogleRemedy};
  std::string endpoint = environment("STORAGE_EMULATOR_HOST");
  if (endpoint.empty()) endpoint = "https://storage.googleapis.com";
  if (!IsObjectUrl(endpoint)) endpoint = absl::StrCat("http://", endpoint);
  access.request.url = absl::StrCat(absl::StripSuffix(endpoint, "/"), "/", url.bucket, "/",
                                    EscapeObjectKey(url.key));
  if (!identity.token.empty()) {
    access.request.headers.push_back(absl::StrCat("Authorization: Bearer ", identity.token));
  }
  return access;
}

}  // namespace

std::string ProcessEnvironment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  // Secrets that were made from files often end in a line end.
  return value == nullptr ? "" : std::string(absl::StripAsciiWhitespace(value));
}

std::string XmlElement(absl::string_view xml, absl::string_view tag) {
  const std::string open = absl::StrCat("<", tag, ">");
  const size_t begin = xml.find(open);
  if (begin == absl::string_view::npos) return "";
  const absl::string_view rest = xml.substr(begin + open.size());
  const size_t end = rest.find(absl::StrCat("</", tag, ">"));
  return end == absl::string_view::npos ? "" : std::string(rest.substr(0, end));
}

absl::StatusOr<StoreIdentity> FindIdentity(ObjectStoreKind kind, const Environment& environment,
                                           absl::Duration patience, ObjectTransfer& transfer) {
  switch (kind) {
    case ObjectStoreKind::kS3:
      return FindAwsIdentity(environment, patience, transfer);
    case ObjectStoreKind::kGcs:
      return FindGoogleIdentity(environment, transfer);
    case ObjectStoreKind::kHttp:
      break;
  }
  return StoreIdentity();
}

absl::StatusOr<ObjectAccess> AccessTo(const ObjectUrl& url, const StoreIdentity& identity,
                                      const Environment& environment) {
  ObjectAccess access;
  if (url.kind == ObjectStoreKind::kS3) {
    ASSIGN_OR_RETURN(access, S3Access(url, identity, environment));
  } else if (url.kind == ObjectStoreKind::kGcs) {
    access = GcsAccess(url, identity, environment);
  } else {
    access.request.url = url.address;
    access.request.follows_redirects = true;
    access.request.uses_netrc = true;
    access.remedy = kHttpRemedy;
  }
  if (access.request.ca_file.empty()) access.request.ca_file = environment("SSL_CERT_FILE");
  return access;
}

}  // namespace dslide
