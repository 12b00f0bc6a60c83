"""Runs every test of the chart and counts them: what `./run chart` calls.

usage: chart_run.py [--bin-dir DIR] [--update] [--start-engine] [-o json]
"""

import argparse
import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
for folder in ("integration", "deploy", "lint"):
    sys.path.append(str(ROOT / "tests" / folder))

import chart  # noqa: E402
import golden_test  # noqa: E402
import values_readme  # noqa: E402
from engine import Engines, Unavailable  # noqa: E402
from junit_counts import outcome_of_case  # noqa: E402

SENTENCES = ("conventions_test", "protection_test", "features_test")
Counts = collections.Counter[str]


def update() -> None:
    """Renews what is made from something else: copies of deploy/, the table of values, golden/."""
    deploy, files = ROOT / "deploy", chart.CHART / "files"
    shutil.copy(deploy / "prometheus" / "alerts.yaml", files)
    shutil.rmtree(files / "dashboards")
    shutil.copytree(deploy / "grafana", files / "dashboards",
                    ignore=lambda _, names: [name for name in names if ".json" not in name])
    values_readme.update()
    golden_test.update()


def run_tests(files: list[pathlib.Path], bin_dir: pathlib.Path) -> dict[str, Counts]:
    """{file: its passed, failed and skipped tests}; what pytest says goes to stderr."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.xml"
        subprocess.run(
            [sys.executable, "-B", "-m", "pytest", "--config-file", ROOT / "tests/pyproject.toml",
             "--bin-dir", bin_dir, "--junit-xml", report, *files], stdout=sys.stderr, check=False)
        found: dict[str, Counts] = collections.defaultdict(Counts)
        for case in ET.parse(report).getroot().iter("testcase"):
            name = case.get("classname", "").rpartition(".")[2]
            found[name][outcome_of_case(case)[0]] += 1
    return found


def run_pods(bin_dir: pathlib.Path, start_engine: bool) -> dict[str, Counts]:
    """run_tests() of the pods under the engine of DOCKER_HOST, or one that is started for them."""
    with tempfile.TemporaryDirectory(prefix="dslide-engine-") as folder:
        try:
            with Engines(start_engine, pathlib.Path(folder)).to_run() as engine:
                os.environ["DOCKER_HOST"] = engine.host
                return run_tests([HERE / "pod_check.py"], bin_dir)
        except Unavailable as reason:
            print(f"   pod_check: skipped: {reason}", file=sys.stderr)
            return {"pod_check": Counts(skipped=1)}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin-dir", type=pathlib.Path, default=ROOT / "build" / "bin")
    parser.add_argument("-o", "--output", choices=["json"])
    for flag in ("--update", "--start-engine"):
        parser.add_argument(flag, action="store_true")
    arguments = parser.parse_args()
    began = time.monotonic()
    if arguments.update:
        update()
    bin_dir = arguments.bin_dir.resolve()
    tests = run_tests(sorted(HERE.glob("*_test.py")), bin_dir)
    tests |= run_pods(bin_dir, arguments.start_engine)
    total = sum(tests.values(), Counts(passed=0, failed=0, skipped=0))
    line = ", ".join(f"{total[what]} {what}" for what in ("passed", "failed", "skipped"))
    if arguments.output:
        print(line, file=sys.stderr)
        print(json.dumps({
            **{what: total[what] for what in ("passed", "failed", "skipped")},
            "seconds": round(time.monotonic() - began, 1), "values_files": len(chart.CI_NAMES),
            "assertions": sum(tests[name]["passed"] for name in SENTENCES), "tests": tests,
        }))
    else:
        print(line)
    return 1 if total["failed"] or not total["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
