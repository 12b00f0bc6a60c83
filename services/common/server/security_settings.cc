#include "services/common/server/security_settings.h"

namespace dslide {

void AddSecuritySettings(ConfigParser& config, ServerOptions& options) {
  TlsSettings& tls = options.tls;
  config.AddString("tls-cert", &tls.files.cert,
                   "PEM file of this server's certificate and its chain; empty: plaintext");
  config.AddString("tls-key", &tls.files.key, "PEM file of the certificate's private key");
  config.AddString("tls-ca", &tls.files.ca,
                   "PEM file of the authorities that vouch for others; with it, who connects "
                   "must have a certificate");
  config.AddString("tls-crl-dir", &tls.files.crl_dir,
                   "Directory of those authorities' lists of revoked certificates (HASH.rN, as "
                   "openssl rehash names them); empty: none");
  config.AddDuration("tls-reload-interval", &tls.reload_interval, absl::Milliseconds(100),
                     absl::Hours(24), "How often those files are looked at for renewed ones");
  config.AddString("tls-cluster", &tls.cluster,
                   "The cluster in the certificates' names dslide://CLUSTER/ROLE");
  config.AddString("authorization", &tls.authorization,
                   "roles: each method is for some roles; none: for every certificate of "
                   "--tls-ca. Empty: roles when there is --tls-ca");
  config.AddInt("max-connections", &options.max_connections, 1, 1'000'000,
                "Connections open at one time; more are closed as soon as they come");
  config.AddInt(
      "max-connection-rate", &options.max_connection_rate, 0, 1'000'000,
      "New connections a second from one address, after a burst of a second's worth; four "
      "seconds' worth more wait for their turns, others are closed as soon as they come. One that "
      "ends before a call was permitted counts for a second's worth. 0: any number");
  config.AddDuration("max-connection-age", &options.max_connection_age, absl::Seconds(1),
                     absl::Hours(24 * 365),
                     "Older connections are renewed by their clients; calls under way on them may "
                     "take 10 more minutes");
  config.AddBool("insecure", &options.insecure, "Allow plaintext where other machines can connect");
}

}  // namespace dslide
