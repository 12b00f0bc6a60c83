// Lists of certificates that their authority has revoked (CRLs), in a directory as `openssl rehash`
// lays it out: HASH.r0, HASH.r1, ..., where HASH is of the authority's name. Of an authority's
// lists the one that was made last counts. A file of a higher number is found by running servers at
// the next handshake; a file that was read once is not read again.

#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace dslide {

// Reads all lists of the directory. What is not wrong but deserves a word in the log is returned:
// an authority of `ca_pem` without a list, whose revocations nobody would notice, and lists that
// are over their time, with which no certificate of their authority is accepted. Errors:
// InvalidArgument naming the directory or file, when it cannot be read or is no list.
absl::StatusOr<std::vector<std::string>> CheckRevocationLists(const std::string& directory,
                                                              const std::string& ca_pem);

// A file for that directory.
struct RevocationList {
  std::string name;
  std::string pem;
};

// The authority's next list: what was revoked before, by the directory, and `certificate_pem`. Good
// until the authority ends.
// Errors: InvalidArgument when one of them is no PEM or the certificate is not the authority's;
// AlreadyExists when it is revoked already; Internal.
absl::StatusOr<RevocationList> NextRevocationList(const std::string& directory,
                                                  const std::string& authority_pem,
                                                  const std::string& authority_key_pem,
                                                  const std::string& certificate_pem,
                                                  absl::Time now);

}  // namespace dslide
