// Jobs that a certificate binds its holder to, as URI names: dslide://<cluster>/trainer/job/<job>.
//
// Such a name stands in place of dslide://<cluster>/trainer: it gives the role, for that job alone.
// So a server that does not know of jobs yet sees no role, and refuses.

#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace dslide {

// "dslide://dslide/trainer/job/run-1".
std::string JobUri(absl::string_view cluster, absl::string_view job);

// The job that a URI of a certificate binds its holder to in `cluster`; nothing for a URI that is
// none below dslide://<cluster>/trainer/. One that is, and means nothing here, binds to "", which
// is no job: what was meant as a limit is none too few. Points into `uri`.
std::optional<absl::string_view> JobOfUri(absl::string_view uri, absl::string_view cluster);

}  // namespace dslide
