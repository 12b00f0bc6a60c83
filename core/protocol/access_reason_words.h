// The reason words of refusals that are due to the caller's certificate, on both planes: what
// programs compare instead of message texts. docs/operate/errors.md lists them with what to do.

#pragma once

namespace dslide::reason {

// --- PERMISSION_DENIED.
inline constexpr char kJobNotAllowed[] = "JOB_NOT_ALLOWED";  // the certificate is for other jobs

}  // namespace dslide::reason
