"""Finds the modules of the tools."""

import pathlib
import sys

_TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"
sys.path[:0] = [str(_TOOLS / name) for name in ("behaviours", "coverage", "times")]
