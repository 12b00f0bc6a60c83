#include "client/cli/cluster/connect.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/status_macros.h"
#include "core/system/listen_address.h"

namespace dslide::cli {
namespace {

constexpr absl::Duration kNamePatience = absl::Seconds(5);
constexpr absl::Duration kNamePause = absl::Milliseconds(500);

}  // namespace

absl::Status AwaitHost(const std::string& address) {
  ASSIGN_OR_RETURN(const ListenAddress parsed, ParseListenAddress(address));
  if (parsed.is_unix || parsed.host.empty()) return absl::OkStatus();
  const absl::Time deadline = absl::Now() + kNamePatience;
  for (;;) {
    absl::Status known = ResolveHost(parsed).status();
    if (known.ok()) return known;
    if (absl::Now() + kNamePause >= deadline) {
      return absl::Status(known.code(), absl::StrCat("coordinator at ", address, ": ",
                                                     known.message(), "; mend the name"));
    }
    absl::SleepFor(kNamePause);
  }
}

absl::StatusOr<std::unique_ptr<CoordinatorClient>> ConnectToCoordinator(
    const GlobalOptions& global, const std::string& cluster) {
  ClientOptions options;
  ASSIGN_OR_RETURN(options.timeout, global.Timeout());
  RETURN_IF_ERROR(AwaitHost(cluster));
  ASSIGN_OR_RETURN(const auto channel, NetworkChannels(global.Channels())(cluster));
  return std::make_unique<CoordinatorClient>(channel, cluster, options, nullptr);
}

}  // namespace dslide::cli
