"""Runs every test of the chart and counts them: what `./run chart` calls.

usage: chart_run.py [--bin-dir DIR] [--update] [--start-engine] [-o json]
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET

from engine import Engines, Unavailable
from junit_counts import outcome_of_case

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests" / "chart"

Counts = collections.Counter[str]


def run_tests(files: list[pathlib.Path], *flags: str | pathlib.Path) -> Counts:
    """How many passed, failed and were skipped; what pytest says goes to stderr."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.xml"
        subprocess.run(
            [sys.executable, "-B", "-m", "pytest", "--config-file", ROOT / "tests/pyproject.toml",
             "--junit-xml", report, *flags, *files], stdout=sys.stderr, check=False)
        return Counts(outcome_of_case(case)[0] for case in ET.parse(report).iter("testcase"))


def run_pods(bin_dir: pathlib.Path, start_engine: bool) -> Counts:
    """The pods under the engine of DOCKER_HOST, or one that is started for them."""
    with tempfile.TemporaryDirectory(prefix="dslide-engine-") as folder:
        try:
            with Engines(start_engine, pathlib.Path(folder)).to_run() as engine:
                os.environ["DOCKER_HOST"] = engine.host
                return run_tests([TESTS / "pod_check.py"], "--bin-dir", bin_dir)
        except Unavailable as reason:
            print(f"   pod_check: skipped: {reason}", file=sys.stderr)
            return Counts(skipped=1)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin-dir", type=pathlib.Path, default=ROOT / "build" / "bin")
    parser.add_argument("-o", "--output", choices=["json"])
    for flag in ("--update", "--start-engine"):
        parser.add_argument(flag, action="store_true")
    arguments = parser.parse_args()
    began, bin_dir = time.monotonic(), arguments.bin_dir.resolve()
    # With --update they renew what is made from something else: golden/, the table of values,
    # copies of what is in deploy/.
    total = run_tests(sorted(TESTS.glob("*_test.py")), "--bin-dir", bin_dir,
                      *(["--update"] if arguments.update else []))
    total += run_pods(bin_dir, arguments.start_engine)
    counts = {what: total[what] for what in ("passed", "failed", "skipped")}
    line = ", ".join(f"{count} {what}" for what, count in counts.items())
    print(line, file=sys.stderr if arguments.output else sys.stdout)
    if arguments.output:
        print(json.dumps({**counts, "seconds": round(time.monotonic() - began, 1)}))
    return 1 if total["failed"] or not total["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
