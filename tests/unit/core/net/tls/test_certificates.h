// An authority of the test's own, and its certificates as files.

#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/net/tls/certificate_authority.h"
#include "core/net/tls/tls_files.h"

namespace dslide {

// A directory that vanishes with the test, and what is written there.
class TestDirectory {
 public:
  TestDirectory() : path_((std::filesystem::path(testing::TempDir()) / "tls-XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr) ADD_FAILURE() << "cannot make " << path_;
  }
  ~TestDirectory() { std::filesystem::remove_all(path_); }
  TestDirectory(const TestDirectory&) = delete;
  TestDirectory& operator=(const TestDirectory&) = delete;

  const std::string& path() const { return path_; }

  // By rename: a reader sees the old text or the new one.
  std::string Write(const std::string& name, const std::string& text, mode_t mode = 0600) const {
    std::string path = absl::StrCat(path_, "/", name);
    std::ofstream(path + ".new") << text;
    EXPECT_EQ(::chmod((path + ".new").c_str(), mode), 0);
    std::filesystem::rename(path + ".new", path);
    return path;
  }

 private:
  std::string path_;
};

inline CertificateSpec SpecOf(const std::string& role) {
  return {.common_name = absl::StrCat("test ", role),
          .uris = {absl::StrCat("dslide://dslide/", role)},
          .hosts = {"localhost", "127.0.0.1"},
          .not_before = absl::Now() - absl::Hours(1),
          .not_after = absl::Now() + absl::Hours(1)};
}

class TestAuthority {
 public:
  TestAuthority()
      : authority_(CertificateAuthority::Create("test authority", absl::Now() - absl::Hours(2),
                                                absl::Now() + absl::Hours(2))
                       .value()) {}

  IssuedCertificate Issue(const CertificateSpec& spec) const {
    return authority_->Issue(spec).value();
  }
  const std::string& ca() const { return authority_->own().certificate; }
  const std::string& key() const { return authority_->own().key; }

  // NAME.crt, NAME.key and the authority's NAME.ca in the directory.
  TlsFiles Write(const TestDirectory& directory, const std::string& name,
                 const CertificateSpec& spec) const {
    const IssuedCertificate issued = Issue(spec);
    return {.cert = directory.Write(name + ".crt", issued.certificate),
            .key = directory.Write(name + ".key", issued.key),
            .ca = directory.Write(name + ".ca", ca())};
  }
  TlsFiles Write(const TestDirectory& directory, const std::string& role) const {
    return Write(directory, role, SpecOf(role));
  }

 private:
  std::unique_ptr<CertificateAuthority> authority_;
};

}  // namespace dslide
