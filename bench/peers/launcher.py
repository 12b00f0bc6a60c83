"""Runs a program and writes what it took: launcher.py USAGE PROGRAM ARGUMENT...

The kernel counts the memory of the process that forked a program as the program's own peak. This
process is small, the benchmark is not: it holds a data set.
"""

import ctypes
import json
import os
import signal
import sys
import time

_PR_SET_PDEATHSIG = 1


def main() -> int:
    path, *command = sys.argv[1:]
    begin = time.monotonic()
    child = os.fork()
    if child == 0:
        # Whoever kills this process ends the program, too.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.execv(command[0], command)
    _, status, usage = os.wait4(child, 0)
    figures = {
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "wall_seconds": time.monotonic() - begin,
        "peak_rss_bytes": 1024 * usage.ru_maxrss,
        "code": os.waitstatus_to_exitcode(status),
    }
    with open(path, "w", encoding="ascii") as file:
        json.dump(figures, file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
