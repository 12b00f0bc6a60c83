// An authority that issues certificates: for development clusters and for tests.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace dslide {

// A certificate and its private key (P-256), both PEM.
struct IssuedCertificate {
  std::string certificate;
  std::string key;
};

struct CertificateSpec {
  std::string common_name = {};
  // "dslide://cluster/shard": who the holder is.
  std::vector<std::string> uris = {};
  // DNS names and IP addresses under which the holder is reached. Only a holder that has some may
  // be a server.
  std::vector<std::string> hosts = {};
  absl::Time not_before = absl::InfinitePast();
  absl::Time not_after = absl::InfiniteFuture();
};

// Not thread-safe.
class CertificateAuthority {
 public:
  // A new authority, valid in the given time. Errors: InvalidArgument for an empty span of time;
  // Internal when OpenSSL fails.
  static absl::StatusOr<std::unique_ptr<CertificateAuthority>> Create(
      const std::string& common_name, absl::Time not_before, absl::Time not_after);
  // One that was made before, by its certificate and key. Errors: InvalidArgument when they are no
  // PEM, do not belong together, or are no authority's.
  static absl::StatusOr<std::unique_ptr<CertificateAuthority>> Open(const IssuedCertificate& own);
  ~CertificateAuthority();

  // Its own certificate, signed by itself.
  const IssuedCertificate& own() const { return own_; }

  // Errors: InvalidArgument for a malformed URI or host, or an empty span of time; Internal.
  absl::StatusOr<IssuedCertificate> Issue(const CertificateSpec& spec) const;

 private:
  struct Impl;
  CertificateAuthority();

  std::unique_ptr<Impl> impl_;
  IssuedCertificate own_;
};

}  // namespace dslide
