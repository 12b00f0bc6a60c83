// What gRPC, protobuf and Abseil have to say.

#pragma once

namespace dslide {

// From now on their messages are lines of this process's log (core/system/log.h) and nowhere else:
// warnings at most, since what an error means for a call is in that call's status. Once, in main(),
// before gRPC is used. Abseil as Debian builds it also watches the order of all locks, by their
// addresses, and ends the process over a possible deadlock: not any more. A program with NDEBUG
// does not tell it which locks are gone; new ones in their places complete cycles that are none.
void ForwardLibraryLogs();

}  // namespace dslide
