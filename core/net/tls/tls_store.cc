#include "core/net/tls/tls_store.h"

#include <utility>

#include "absl/time/clock.h"
#include "core/base/status_macros.h"
#include "core/system/log.h"

namespace dslide {

namespace {

constexpr int kOpenTries = 4;
constexpr absl::Duration kOpenPause = absl::Milliseconds(100);

// The files may be replaced at this moment: a certificate of before and a key of after do not
// belong together.
absl::StatusOr<TlsMaterial> LoadWhole(const TlsFiles& files) {
  for (int i = 1;; ++i) {
    absl::StatusOr<TlsMaterial> material = LoadTlsMaterial(files);
    if (material.ok() || i == kOpenTries) return material;
    absl::SleepFor(kOpenPause);
  }
}

}  // namespace

TlsStore::TlsStore(TlsFiles files, absl::Duration reload_interval)
    : files_(std::move(files)), reload_interval_(reload_interval) {}

absl::StatusOr<std::shared_ptr<TlsStore>> TlsStore::Open(const TlsFiles& files,
                                                         absl::Duration reload_interval) {
  std::shared_ptr<TlsStore> store(new TlsStore(files, reload_interval));
  ASSIGN_OR_RETURN(const TlsMaterial material, LoadWhole(files));
  RETURN_IF_ERROR(store->Publish(material));
  for (const std::string& warning : material.warnings) LogWarning(warning);
  store->watcher_ = std::thread([raw = store.get()] { raw->Watch(); });
  return store;
}

TlsStore::~TlsStore() {
  {
    const absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  if (watcher_.joinable()) watcher_.join();
}

absl::Status TlsStore::Publish(const TlsMaterial& material) {
  // Authorities first: a certificate of a new authority finds that authority.
  if (!material.ca_pem.empty() && material.ca_pem != ca_pem_) {
    RETURN_IF_ERROR(ca_.Replace(material.ca_pem));
    ca_pem_ = material.ca_pem;
  }
  if (!material.identity_pem.empty() && material.identity_pem != identity_pem_) {
    RETURN_IF_ERROR(identity_.Replace(material.identity_pem));
    identity_pem_ = material.identity_pem;
  }
  const absl::MutexLock lock(&mu_);
  expires_ = material.expires;
  return absl::OkStatus();
}

void TlsStore::Watch() {
  for (;;) {
    {
      const absl::MutexLock lock(&mu_);
      if (mu_.AwaitWithTimeout(absl::Condition(&stopping_), reload_interval_)) return;
    }
    Reload();
  }
}

void TlsStore::Reload() {
  absl::StatusOr<TlsMaterial> material = LoadTlsMaterial(files_);
  if (material.ok() && material->identity_pem == identity_pem_ && material->ca_pem == ca_pem_) {
    last_refusal_ = absl::OkStatus();
    return;
  }
  const absl::Status published = material.ok() ? Publish(*material) : material.status();
  {
    const absl::MutexLock lock(&mu_);
    ++(published.ok() ? reloads_ : refusals_);
  }
  if (published.ok()) {
    LogInfo("certificates renewed", {{"expires", absl::FormatTime(material->expires)}});
  } else if (published != last_refusal_) {
    // Once, not at every look: the metric counts on.
    LogError("new certificates refused, the old ones stay in use",
             {{"error", published.message()}});
  }
  last_refusal_ = published;
}

absl::Time TlsStore::expires() const {
  const absl::MutexLock lock(&mu_);
  return expires_;
}

int64_t TlsStore::reloads() const {
  const absl::MutexLock lock(&mu_);
  return reloads_;
}

int64_t TlsStore::refusals() const {
  const absl::MutexLock lock(&mu_);
  return refusals_;
}

}  // namespace dslide
