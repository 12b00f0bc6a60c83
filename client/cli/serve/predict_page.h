// The page on which a person tries texts.

#pragma once

#include <optional>

#include "absl/strings/string_view.h"
#include "core/net/http/http_server.h"

namespace dslide::cli {

// "/", and what it loads; all of it from this server. Nothing for other paths.
std::optional<HttpReply> PredictPage(absl::string_view path);

}  // namespace dslide::cli
