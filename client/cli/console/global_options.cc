#include "client/cli/console/global_options.h"

#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/base/units.h"
#include "core/system/log.h"

namespace dslide::cli {
namespace {

constexpr int64_t kMostThreads = 1024;  // as the servers' --threads

}  // namespace

absl::StatusOr<absl::Duration> GlobalOptions::Timeout() const {
  absl::StatusOr<absl::Duration> parsed = ParseDuration(timeout);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--timeout: ", parsed.status().message()));
  }
  if (*parsed <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("--timeout 0: a call needs a deadline above 0");
  }
  return parsed;
}

std::string EnvironmentName(const std::string& names) {
  std::string variable = "DSLIDE_";
  for (const char c : names.substr(names.rfind("--") + 2)) {
    variable += c == '-' ? '_' : absl::ascii_toupper(static_cast<unsigned char>(c));
  }
  return variable;
}

Flag AddThreads(CliCommand command, int64_t& threads, const std::string& help) {
  return AddOption(command, "--threads", threads, help).Range(int64_t{0}, kMostThreads);
}

void AddGlobalOptions(CliCommand app, GlobalOptions& global) {
  AddOption(app, "-o,--output", global.output, "Form of the result: text or json")
      .OneOf({"text", "json"});
  AddOption(app, "--timeout", global.timeout, "Deadline of every call to the cluster, e.g. 30s");
  AddSwitch(app, "-q,--quiet", global.quiet, "No progress on stderr");
  // Services inside this process have nothing to say to people while all goes well.
  AddOption(app, "--log-level", global.log_level, "Least grave lines of the log on stderr")
      .OneOf({std::begin(kLogLevelWords), std::end(kLogLevelWords)})
      .ShowDefault();
  AddOption(app, "--log-format", global.log_format,
            "Form of what goes to stderr: text, or json, one object a line")
      .OneOf({std::begin(kLogFormatWords), std::end(kLogFormatWords)});
  AddOption(app, "--otlp-endpoint", global.tracing.endpoint,
            "Collector that gets spans by OTLP over HTTP, e.g. http://127.0.0.1:4318; a command "
            "is below the span that TRACEPARENT names");
  AddOption(app, "--trace-sample", global.tracing.sample,
            "Share of the traces that are kept, of those that begin here")
      .ShowDefault();
  AddSwitch(app, "--insecure", global.insecure,
            "Allow plaintext connections to other machines (trusted networks only)");
  AddOption(app, "--tls-ca", global.tls.ca,
            "PEM file of the authorities of the cluster's certificates; encrypts connections");
  AddOption(app, "--tls-crl-dir", global.tls.crl_dir,
            "Directory of those authorities' lists of revoked certificates");
  AddOption(app, "--tls-cert", global.tls.cert, "PEM file of this client's certificate");
  AddOption(app, "--tls-key", global.tls.key, "PEM file of the certificate's private key");
}

}  // namespace dslide::cli
