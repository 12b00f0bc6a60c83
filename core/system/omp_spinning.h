// Processors for whoever has work: threads that wait do not spin.

#pragma once

namespace dslide {

// Makes OpenMP's threads sleep while they wait for the next parallel loop. To be called first in
// main(), with its arguments.
//
// By default they spin for a while. Where a trainer and shards share a machine, each spinning
// thread takes a processor from a thread that has work: a training run of two threads and one
// embedded shard was 12 % slower. The runtime reads OMP_WAIT_POLICY when it is loaded, before
// main(), so the program starts itself anew with the variable set to "passive". A variable that is
// set already is left alone. When the program cannot be started anew this returns, and threads
// spin.
void DisableOmpSpinning(char** argv);

}  // namespace dslide
