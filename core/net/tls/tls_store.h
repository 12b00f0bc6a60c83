// Certificates that are renewed while the process runs: watches the files, checks what appears
// there, and offers the last good set at paths that never show anything else.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/net/tls/memory_file.h"
#include "core/net/tls/tls_files.h"

namespace dslide {

// What gRPC's own watcher would do with a half-written or mismatched set is to drop the good one
// and refuse every connection from then on: so it is given checked copies. Those are files in
// memory (memory_file.h); the key reaches no other disk than its own.
//
// Thread safety: safe from any thread.
class TlsStore {
 public:
  // Loads the first set and watches the files from then on, every `reload_interval`. Errors: those
  // of LoadTlsMaterial; Internal when the system offers no files in memory.
  static absl::StatusOr<std::shared_ptr<TlsStore>> Open(const TlsFiles& files,
                                                        absl::Duration reload_interval);
  ~TlsStore();

  // Paths that can be read as long as the process runs, also after this object is gone. Key and
  // certificate chain are in one file, so that they always belong together; "" without them.
  const std::string& identity_path() const { return identity_.path(); }
  const std::string& ca_path() const { return ca_.path(); }
  // Where lists of revoked certificates are looked for at each handshake; "" for none.
  const std::string& crl_dir() const { return files_.crl_dir; }

  // When the present certificate ends; InfiniteFuture without one.
  absl::Time expires() const;
  // Sets taken over after the first one.
  int64_t reloads() const;
  // Sets that were found and refused; the one before stays in use.
  int64_t refusals() const;

 private:
  TlsStore(TlsFiles files, absl::Duration reload_interval);
  absl::Status Publish(const TlsMaterial& material);
  void Watch();
  void Reload();

  const TlsFiles files_;
  const absl::Duration reload_interval_;
  MemoryFile identity_;        // path constant after Open(); replaced by the watching thread
  MemoryFile ca_;              // as above
  std::string identity_pem_;   // of the watching thread
  std::string ca_pem_;         // as above
  absl::Status last_refusal_;  // as above
  mutable absl::Mutex mu_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  absl::Time expires_ ABSL_GUARDED_BY(mu_) = absl::InfiniteFuture();
  int64_t reloads_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t refusals_ ABSL_GUARDED_BY(mu_) = 0;
  std::thread watcher_;
};

}  // namespace dslide
