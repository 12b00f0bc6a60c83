// Requests and replies as they are on the wire, beside protobuf's JSON form of them.

#pragma once

namespace dslide {

// Sections "message" to stdout: {"type": "StepRequest", "what", "json"} and "bytes". False, and
// said on stderr, when one cannot be written as JSON.
bool PrintMessages();

}  // namespace dslide
