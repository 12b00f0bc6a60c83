// Fetches Debian's lists with apt-get into a folder of the user's own: no root, and nothing changes
// for the system's apt.

#pragma once

#include <string>

#include "absl/status/status.h"

namespace dslide::cli {

struct AptFetch {
  std::string lists_dir;  // made when absent
  // Also the Contents index, which says what files packages ship.
  bool contents = false;
  // A release by name ("trixie"), from deb.debian.org; "": from the sources of this machine.
  std::string release = {};
};

// Runs `apt-get update`. Its output goes beside the folder, to DIR.log, and a release's source to
// DIR.sources.list: apt removes what it does not know from the folder.
// Errors: InvalidArgument for the name of a release; NotFound where there is no apt-get; Internal
// with the end of its output when it failed. What a server does not offer is no error of apt-get.
absl::Status FetchAptLists(const AptFetch& fetch);

}  // namespace dslide::cli
