// The end of standard input as a question that commands ask now and then.

#pragma once

namespace dslide::cli {

// Whether standard input has come to its end. What arrives on it is dropped.
bool StdinEnded();

}  // namespace dslide::cli
