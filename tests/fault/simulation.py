"""Runs the simulator (tests/simulation) over many seeds, on all processors, and adds up.

    python3 simulation.py --bin-dir DIR [--seeds N] [--first-seed S]

The last line of stdout is one JSON object. Exit code 0: no promise was broken.
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys

import fault_paths  # noqa: F401
import processes

PROGRAM = "dslide_simulate"


def exists(bin_dir):
    """Whether the build has the simulator: packages of the programs do not."""
    return (bin_dir / PROGRAM).exists()


def portions(first_seed, seeds, count):
    """(first seed, seeds) for each of at most `count` processes."""
    count = max(1, min(count, seeds))
    start = first_seed
    for number in range(count):
        size = seeds // count + (number < seeds % count)
        yield start, size
        start += size


def add_up(results):
    """One result of several."""
    total = {"first_seed": min(result["first_seed"] for result in results)}
    for key in ("seeds", "violations", "repeated", "trace_hash_mismatches", "updates", "events"):
        total[key] = sum(result[key] for result in results)
    for key in ("modes", "faults"):
        counts = collections.Counter()
        for result in results:
            counts.update(result[key])
        total[key] = dict(counts)
    total["shown"] = [line for result in results for line in result["shown"]]
    total["seconds"] = round(max(result["seconds"] for result in results), 1)
    return total


def run(bin_dir, first_seed, seeds, at_once=None):
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
            process.wait()
            process.stdout.close()
            process.stderr.close()
    return add_up(results)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin-dir", type=pathlib.Path, required=True)
    parser.add_argument("--seeds", type=int, default=2000)
    parser.add_argument("--first-seed", type=int, default=1)
    options = parser.parse_args()
    result = run(options.bin_dir, options.first_seed, options.seeds)
    print(json.dumps(result))
    sys.exit(1 if result["violations"] or result["trace_hash_mismatches"] else 0)


if __name__ == "__main__":
    main()
