// What gRPC, protobuf and Abseil have to say.

#pragma once

namespace dslide {

// From now on their messages are lines of this process's log (core/system/log.h) and nowhere else:
// warnings at most, since what an error means for a call is in that call's status. Once, in main(),
// before gRPC is used. Abseil as Debian builds it also watches the order of all locks and ends the
// process where it could deadlock, gRPC's own locks and freed ones included: not any more.
void ForwardLibraryLogs();

}  // namespace dslide
