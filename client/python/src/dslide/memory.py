"""The process's heap, for programs that move many rows."""

from __future__ import annotations

import ctypes

# Of mallopt(3).
_M_TRIM_THRESHOLD = -1
_M_TOP_PAD = -2
_M_MMAP_THRESHOLD = -3
_BLOCKS_FROM_THE_HEAP_BYTES = 1 << 30
_KEPT_BYTES = (1 << 31) - 1
_AT_ONCE_BYTES = 64 << 20


def keep_freed_memory() -> bool:
    """Makes glibc's heap keep what is freed, for this process and from now on.

    Otherwise the memory of every received message goes back to the system, and is faulted in again
    for the next one: gathers of 100,000 rows take half as long again. Call it once, early, in a
    program that gathers or scatters many rows; freed memory stays with the process then.

    Returns False, and does nothing, where the C library is another one.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    settings = (
        (_M_MMAP_THRESHOLD, _BLOCKS_FROM_THE_HEAP_BYTES),
        (_M_TRIM_THRESHOLD, _KEPT_BYTES),
        (_M_TOP_PAD, _AT_ONCE_BYTES),
    )
    return all([bool(mallopt(name, value)) for name, value in settings])
