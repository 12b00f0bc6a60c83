"""Runs the simulator (tests/simulation) over many seeds, on all processors, and adds up."""

from __future__ import annotations

import collections
import json
import os
import pathlib
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import processes

PROGRAM = "dslide_simulate"


def portions(first_seed: int, seeds: int, count: int) -> Iterator[tuple[int, int]]:
    """(first seed, seeds) for each of at most `count` processes."""
    count = max(1, min(count, seeds))
    start = first_seed
    for number in range(count):
        size = seeds // count + (number < seeds % count)
        yield start, size
        start += size


def add_up(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One result of several."""
    total: dict[str, Any] = {}
    for key in ("seeds", "violations", "repeated", "trace_hash_mismatches"):
        total[key] = sum(result[key] for result in results)
    for key in ("modes", "faults"):
        counts: collections.Counter[str] = collections.Counter()
        for result in results:
            counts.update(result[key])
        total[key] = dict(counts)
    total["shown"] = [line for result in results for line in result["shown"]]
    return total


def run(bin_dir: pathlib.Path, first_seed: int, seeds: int,
        at_once: int | None = None) -> dict[str, Any]:
    """What dslide_simulate says of these seeds. Raises RuntimeError when it has died."""
    running = []
    # A seed takes some milliseconds: a second is for a machine that does much else.
    limit = processes.PATIENCE_SECONDS + seeds
    for start, size in portions(first_seed, seeds, at_once or os.cpu_count() or 1):
        running.append(subprocess.Popen(
            [bin_dir / PROGRAM, "--first-seed", str(start), "--seeds", str(size), "-o", "json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    results = []
    try:
        for process in running:
            out, err = process.communicate(timeout=limit)
            if process.returncode not in (0, 1):
                raise RuntimeError(f"{PROGRAM} ended with {process.returncode}: {err}")
            results.append(json.loads(out.splitlines()[-1]))
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"{PROGRAM} is not done after {error.timeout:.0f} s") from error
    finally:
        for process in running:
            process.kill()
            process.communicate()
    return add_up(results)
