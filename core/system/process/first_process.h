// Signals of a process that is the first of its container.

#pragma once

namespace dslide {

// From now on SIGTERM and SIGINT end the process at once, with exit code 130, as long as nothing
// else handles them. The kernel lets nothing end the first process of a container that has not
// asked for it: such a container would run until it is killed. Called by main() before threads
// start.
void EndOnSignals();

// The same where this process is the first of its container; others have what the kernel does.
void EndOnSignalsAsFirstProcess();

}  // namespace dslide
