"""Finds the modules of the benchmarks."""

import pathlib
import sys

_BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path[:0] = [str(_BENCH / name)
                for name in ("cluster", "common", "micro", "paper", "peers", "report")]
