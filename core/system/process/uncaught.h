// Exceptions that nothing has handled: no memory, no threads left, malformed JSON. Our own code
// throws none; the standard library and others do.

#pragma once

#include <exception>
#include <string>

namespace dslide {

// What went wrong, in one line, with the remedy where there is one.
std::string DescribeException(const std::exception_ptr& exception);

// From now on an exception that nobody catches, in whatever thread, ends the process with one line
// on stderr and exit code 1; without it that is an abort. So does SIGBUS, which the system sends
// when a mapped file has become shorter. `program` begins the line and must live for ever. Called
// by main() before threads start.
void ExitOnUncaught(const char* program);

// A library has said that it could not start a thread: an abort that follows is for that.
void NoteThreadsRanOut();

}  // namespace dslide
