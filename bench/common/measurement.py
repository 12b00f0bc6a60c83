"""What benchmarks in Python share: statistics, foreign load, and how a result is printed.

The same meanings as bench/common/{statistics,foreign_load}.h.
"""

import json
import os
import pathlib
import resource
import statistics
import sys
import time


def median(values):
    return statistics.median(values) if values else 0.0


def spread(values):
    """(largest - smallest) / median."""
    if len(values) < 2 or max(values) == min(values):
        return 0.0
    middle = abs(median(values))
    return (max(values) - min(values)) / middle if middle else float("inf")


def enough(values, least, most, largest_spread):
    """Whether to stop repeating."""
    return len(values) >= most or (len(values) >= least and spread(values) <= largest_spread)


def busy_ticks(proc_stat):
    """Ticks in which a processor did something: all but idle and waiting for a disk."""
    words = proc_stat.split("\n", 1)[0].split()
    if len(words) < 9 or words[0] != "cpu":
        raise ValueError(f"/proc/stat begins with {words!r}, expected cpu and at least 8 numbers")
    ticks = [int(word) for word in words[1:9]]
    return sum(ticks) - ticks[3] - ticks[4]


def _own_seconds():
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _busy_seconds():
    text = pathlib.Path("/proc/stat").read_text(encoding="ascii")
    return busy_ticks(text) / os.sysconf("SC_CLK_TCK")


class ForeignLoad:
    """Processors that everything else kept busy; own is this process and its reaped children."""

    def __init__(self):
        self._start = time.monotonic(), _busy_seconds(), _own_seconds()

    def processors(self):
        wall, busy, own = (now - then for now, then in zip(
            (time.monotonic(), _busy_seconds(), _own_seconds()), self._start))
        return max(0.0, (busy - own) / wall) if wall > 0 else 0.0


def say(text):
    """Progress, and everything that is no result."""
    print(text, file=sys.stderr, flush=True)


def report(result, as_json, lines):
    """Prints the result: one JSON object, or lines for people."""
    print(json.dumps(result) if as_json else "\n".join(lines), flush=True)


def footer(result):
    return (f"commit {result['commit']}, {result['cpu']} x {result['processors']}, "
            f"foreign load {result['foreign_load']:.2f} processors")
