// What the kernel says about this process (Linux, /proc). 0 where it says nothing.

#pragma once

namespace dslide {

double ProcessCpuSeconds();
double ProcessResidentBytes();
// The largest resident memory so far.
double ProcessPeakResidentBytes();
double ProcessVirtualBytes();
double ProcessOpenFiles();
double ProcessMaxFiles();
double ProcessStartTimeSeconds();

}  // namespace dslide
