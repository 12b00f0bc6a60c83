"""Runs every test of the chart and counts them: what `./run chart` calls.

usage: chart_run.py [--bin-dir DIR] [--update] [--start-engine] [--compare-renderer] [-o json]
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import chart
import golden_test
import values_readme

SENTENCES = ("conventions", "protection", "features")
TESTS = ("values", *SENTENCES, "golden", "helm", "refusals", "kubernetes", "flags", "cluster")
WITH_PROGRAMS = ("flags", "cluster", "pod")
sys.path.append(str(chart.ROOT / "tests" / "deploy"))
from engine import Engines, Unavailable  # noqa: E402


def update():
    """Renews what is made from something else: copies of deploy/, the table of values, golden/."""
    deploy, files = chart.ROOT / "deploy", chart.CHART / "files"
    (files / "alerts.yaml").write_text((deploy / "prometheus" / "alerts.yaml").read_text())
    for path in (files / "dashboards").glob("*.json"):
        path.unlink()
    for path in (deploy / "grafana").glob("*.json"):
        (files / "dashboards" / path.name).write_text(path.read_text())
    values_readme.main([])
    golden_test.update()


def run_test(name, bin_dir, kind="test"):
    """(passed, failed, skipped) of one file of tests; its output goes to stderr."""
    command = [sys.executable, str(pathlib.Path(__file__).with_name(f"{name}_{kind}.py"))]
    if name in WITH_PROGRAMS:
        command += ["--bin-dir", str(bin_dir)]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    for line in done.stdout.splitlines():
        if re.match(r"SKIPPED|skipped", line):
            print(f"   {name}: {line}", file=sys.stderr)
    ran = re.search(r"^Ran (\d+) tests?", done.stdout, re.MULTILINE)
    if done.returncode == 77 and not ran:
        return 0, 0, 1
    skipped = re.search(r"skipped=(\d+)", done.stdout)
    # A test with several failing parts is one.
    bad = len(set(re.findall(r"^(?:FAIL|ERROR): (\w+)", done.stdout, re.MULTILINE)))
    if done.returncode not in (0, 77):
        print(done.stdout, file=sys.stderr)
        bad = max(bad, 1)
    total, left_out = int(ran.group(1)) if ran else bad, int(skipped.group(1)) if skipped else 0
    # A class that is skipped as a whole is not among the tests that ran.
    total += len(re.findall(r"^SKIPPED setUpClass ", done.stdout, re.MULTILINE))
    return max(total - bad - left_out, 0), bad, left_out


def check_pods(bin_dir, start_engine):
    """run_test() of the pods under the engine of DOCKER_HOST, or one that is started for them."""
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dslide-engine-")))
        try:
            engine = stack.enter_context(Engines(start_engine, folder).to_run())
        except Unavailable as reason:
            print(f"   pod: skipped: {reason}", file=sys.stderr)
            return 0, 0, 1
        os.environ["DOCKER_HOST"] = engine.host
        return run_test("pod", bin_dir, "check")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin-dir", type=pathlib.Path, default=chart.ROOT / "build" / "bin")
    parser.add_argument("-o", "--output", choices=["json"])
    for flag in ("--update", "--start-engine", "--compare-renderer"):
        parser.add_argument(flag, action="store_true")
    arguments = parser.parse_args()
    began = time.monotonic()
    name, program = chart.renderer()
    print(f"   rendering with {name} ({program})", file=sys.stderr)
    if arguments.update:
        update()
    bin_dir = arguments.bin_dir.resolve()
    runs = {test: lambda test=test: run_test(test, bin_dir) for test in TESTS}
    if arguments.compare_renderer:
        runs["renderer"] = lambda: run_test("renderer", bin_dir, "check")
    runs["pod"] = lambda: check_pods(bin_dir, arguments.start_engine)
    counts = {}
    for test, run in runs.items():
        counts[test] = passed, failed, skipped = run()
        print(f"   {test}: {passed} passed, {failed} failed, {skipped} skipped", file=sys.stderr)
    passed, failed, skipped = (sum(part) for part in zip(*counts.values()))
    line = f"{passed} passed, {failed} failed, {skipped} skipped"
    if arguments.output:
        print(line, file=sys.stderr)
        print(json.dumps({
            "passed": passed, "failed": failed, "skipped": skipped,
            "seconds": round(time.monotonic() - began, 1), "renderer": name,
            "values_files": len(chart.CI_FILES), "assertions": sum(counts[test][0] for test in SENTENCES),
            "tests": {test: dict(zip(("passed", "failed", "skipped"), count)) for test, count in counts.items()},
        }))
    else:
        print(line)
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
