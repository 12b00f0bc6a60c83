// What one thread reads from memory.

#pragma once

namespace dslide::bench {

// The best of several passes over a buffer that no cache holds, by the kernels' own dot products of
// rows of 128 floats, half of them with rows prefetched: what a scan of rows can reach at most.
// Bytes a second.
double MemoryBytesPerSecond();

}  // namespace dslide::bench
