// How the process's heap treats memory that was freed.

#pragma once

namespace dslide {

// Makes the C library's heap keep freed memory instead of giving it back to the system and faulting
// it in again: the receive buffers of a stream of bulk rows are freed as fast as they come, and
// fresh pages cost more than the rest of the transfer (0.51 -> 0.28 CPU-seconds per GB of a bare
// gRPC stream, bench/rpc). Keeps up to 256 MiB, and asks for huge pages for the first 192, so that
// rows in passing wait for no translations either. For main(), before threads start; elsewhere than
// with glibc it does nothing.
void TuneMalloc();

}  // namespace dslide
