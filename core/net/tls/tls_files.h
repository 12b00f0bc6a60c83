// Certificates and keys in PEM files: what is given, and whether it is fit for use.

#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace dslide {

struct TlsFiles {
  // This process's certificate, with the chain up to the authority; "" for none.
  std::string cert = {};
  // Its private key, not encrypted; "" for none.
  std::string key = {};
  // Certificates of the authorities that peers' certificates are checked against; "" for none.
  std::string ca = {};
  // Directory of the lists of what they have revoked (revocation_lists.h); "" for none.
  std::string crl_dir = {};

  bool empty() const { return cert.empty() && key.empty() && ca.empty(); }
  bool has_identity() const { return !cert.empty(); }
};

// Whether the files that are named belong together: a certificate needs its key. Reads nothing.
// Errors: InvalidArgument naming the missing flag.
absl::Status CheckTlsFileNames(const TlsFiles& files);

// What the files hold, checked.
struct TlsMaterial {
  // The key and the certificate chain; "" without a certificate.
  std::string identity_pem = {};
  // "" without authorities.
  std::string ca_pem = {};
  // Of the certificate and of its chain, whichever ends first; InfiniteFuture without one.
  absl::Time expires = absl::InfiniteFuture();
  // What is not wrong but deserves a word in the log, e.g. a key that everybody may read.
  std::vector<std::string> warnings = {};
};

// Reads and checks all files that are named. Errors, naming the file and the remedy:
// InvalidArgument for a file that is missing, unreadable or no PEM, a key that does not belong to
// the certificate or is encrypted, and certificates that have expired or are not valid yet.
absl::StatusOr<TlsMaterial> LoadTlsMaterial(const TlsFiles& files);

inline constexpr absl::Duration kDefaultTlsReloadInterval = absl::Seconds(60);

}  // namespace dslide
