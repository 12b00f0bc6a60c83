#!/usr/bin/env python3
"""Builds the clients in other languages and tests them against real clusters, plain and mutual TLS.

The Python package is built as users get it (sdist, and a wheel of that), installed into an
environment of its own with the locked versions of client/python/requirements-test.txt, and tested;
the Node package is packed, installed into an empty project, and tested; the Go module is checked
and tested; the Java package is built, tested and installed into a repository of its own. At the
end all languages are compared with the same transcripts, and train one job together.
Environments and builds are kept in the cache folder. What needs a tool that is not here is skipped,
and says so.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "common"))

import java_package  # noqa: E402
import language_programs  # noqa: E402
import node_package  # noqa: E402
import python_package  # noqa: E402
from junit_counts import outcome_of_case  # noqa: E402
from python_package import say  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Report:
    """Counts, and the names behind them."""

    def __init__(self) -> None:
        self.counts = {"passed": 0, "failed": 0, "skipped": 0}
        self.lines: list[str] = []

    def add(self, result: str, name: str = "") -> None:
        self.counts[result] += 1
        if result != "passed":
            self.lines.append(f"{result} clients: {name}")
            say(f"{result.upper()}: {name}")

    def check(self, name: str, command: Sequence[str | pathlib.Path], **arguments: Any) -> None:
        """Counts one command that has to end with 0; its output is shown when it does not."""
        say(name)
        done = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **arguments)
        if done.returncode != 0:
            print(done.stdout, file=sys.stderr, flush=True)
        self.add("passed" if done.returncode == 0 else "failed", name)

    def add_junit(self, path: pathlib.Path) -> None:
        """The cases of a pytest report."""
        for case in ET.parse(path).iter("testcase"):
            outcome, why = outcome_of_case(case)
            name = f"{case.get('classname')}.{case.get('name')}"
            self.add(outcome, f"{name}: {why}" if why else name)


def with_torch(package: pathlib.Path, may_install: bool) -> dict[str, str]:
    """Variables with which tests see the package, and PyTorch where there is one."""
    try:
        torch = python_package.torch_packages(may_install)
    except (OSError, subprocess.CalledProcessError) as error:
        say(f"PyTorch could not be installed: {error}")
        torch = None
    if torch is None:
        say("skipped: the tests with PyTorch, which is not installed (6 GB: --with-torch)")
        return python_package.variables(package)
    return python_package.variables(package, torch)


def test_python(bin_dir: pathlib.Path, report: Report, pytest_arguments: Sequence[str],
                torch: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="dslide-clients-") as temporary:
        say("the Python package: sdist, and a wheel of it")
        try:
            python, package = python_package.install(pathlib.Path(temporary))
        except subprocess.CalledProcessError as error:
            print(error.stdout or "", file=sys.stderr)
            report.add("failed", f"the Python package: {error}")
            return
        report.add("passed")
        results = pathlib.Path(temporary) / "cases.xml"
        environment_variables = python_package.variables(package)
        report.check("the types of the Python package (mypy)", [
            python, "-m", "mypy", "--config-file", python_package.SOURCE / "pyproject.toml"],
            cwd=temporary, env={**environment_variables, "MYPYPATH": str(package)})
        for check in ("check", "format --check"):
            report.check(f"the sources of the Python package (ruff {check})", [
                python, "-m", "ruff", *check.split(), "--no-cache", python_package.SOURCE])
        say("the tests of the Python package")
        done = subprocess.run(
            [python, "-m", "pytest", "--bin-dir", bin_dir, "-p", "no:cacheprovider",
             f"--junitxml={results}", *pytest_arguments, python_package.SOURCE / "tests"],
            check=False, stdin=subprocess.DEVNULL, stdout=sys.stderr, cwd=python_package.SOURCE,
            env=with_torch(package, torch))
        if results.exists():
            report.add_junit(results)
        if done.returncode != 0 and not report.counts["failed"]:
            report.add("failed", f"pytest ended with {done.returncode}")


def test_node(bin_dir: pathlib.Path, report: Report) -> None:
    missing = [tool for tool in ("node", "npm") if shutil.which(tool) is None]
    if missing:
        report.add("skipped", f"the Node package: {' and '.join(missing)} not found")
        return
    with tempfile.TemporaryDirectory(prefix="dslide-clients-") as temporary:
        say("the Node package: npm pack, and an installation of it")
        try:
            source, user = node_package.install(pathlib.Path(temporary))
        except subprocess.CalledProcessError as error:
            print(error.stdout or "", file=sys.stderr)
            report.add("failed", f"the Node package: {error}")
            return
        report.add("passed")
        report.check("the types of the Node package's tests and example (tsc)",
                     ["npx", "tsc", "--project", "tsconfig.json"], cwd=source)
        say("the tests of the Node package")
        results = pathlib.Path(temporary) / "cases.xml"
        tests = sorted((source / "build" / "test").glob("*.test.js"))
        done = subprocess.run(
            ["node", "--test", "--test-reporter=spec", "--test-reporter-destination=stderr",
             "--test-reporter=junit", f"--test-reporter-destination={results}", *tests],
            check=False, stdin=subprocess.DEVNULL, cwd=source,
            env=node_package.variables(bin_dir, user))
        if results.exists():
            report.add_junit(results)
        if done.returncode != 0 and not report.counts["failed"]:
            report.add("failed", f"node --test ended with {done.returncode}")


def test_go(bin_dir: pathlib.Path, report: Report) -> None:
    if shutil.which("go") is None:
        report.add("skipped", "the Go module: go not found")
        return
    source = ROOT / "client" / "go"
    report.check("the sources of the Go module (gofmt)",
                 ["sh", "-c", 'listed=$(gofmt -l .) && echo "$listed" && test -z "$listed"'],
                 cwd=source)
    report.check("the sources of the Go module (go vet)", ["go", "vet", "./..."], cwd=source)
    if shutil.which("protoc") is None:
        report.add("skipped", "the messages of the Go module: protoc not found")
    else:
        report.check("the messages of the Go module", ["./generate.sh", "--check"], cwd=source)
    say("the tests of the Go module")
    done = subprocess.run(["go", "test", "-json", "-count=1", "./..."], check=False, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, cwd=source,
                          env={**os.environ, "DSLIDE_BIN_DIR": str(bin_dir)})
    results = {"pass": "passed", "fail": "failed", "skip": "skipped"}
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    for event in events:
        if event["Action"] in results and "/" not in event.get("Test", "/"):
            report.add(results[event["Action"]], f"{event['Package']}.{event['Test']}")
    if done.returncode != 0:
        print("".join(event.get("Output", "") for event in events), file=sys.stderr, flush=True)
        if not report.counts["failed"]:
            report.add("failed", f"go test ended with {done.returncode}")


def test_java(bin_dir: pathlib.Path, report: Report) -> None:
    missing = [tool for tool in java_package.TOOLS if shutil.which(tool) is None]
    if missing:
        report.add("skipped", f"the Java package: {' and '.join(missing)} not found")
        return
    say("the Java package: mvn install, with its tests")
    done = java_package.install(bin_dir)
    if done.returncode != 0:
        print(done.stdout, file=sys.stderr, flush=True)
    for results in sorted(java_package.RESULTS.glob("TEST-*.xml")):
        report.add_junit(results)
    if done.returncode != 0 and not report.counts["failed"]:
        report.add("failed", f"mvn install ended with {done.returncode}")


def test_together(bin_dir: pathlib.Path, report: Report) -> None:
    """Programs of all languages beside each other."""
    def skip(language: str, missing: list[str]) -> None:
        report.add("skipped", f"{language} beside the others: {' and '.join(missing)} not found")

    with tempfile.TemporaryDirectory(prefix="dslide-clients-") as temporary:
        folder = pathlib.Path(temporary)
        try:
            made = language_programs.build(bin_dir, folder, skip)
        except subprocess.CalledProcessError as error:
            print(error.stdout or "", file=sys.stderr)
            report.add("failed", f"the programs of all languages: {error}")
            return
        listed = folder / "programs.json"
        listed.write_text(json.dumps([dataclasses.asdict(one) for one in made]), encoding="utf-8")
        say("transcripts of sequences and retries, in each language")
        cases = _results(made, "transcripts.py", listed)
        if not cases:
            report.add("failed", "the transcripts: no result")
        for case in cases:
            name = f"transcript {case['transcript']}, {case['language']}"
            report.add("failed" if case["wrong"] else "passed",
                       f"{name}: {'; '.join(case['wrong'])}")
        say("one job with a trainer in each language")
        results = _results(made, "one_job.py", listed, "--bin-dir", bin_dir)
        for result in results:
            say(json.dumps({name: value for name, value in result.items() if name != "wrong"}))
        wrong = [text for result in results for text in result["wrong"]]
        report.add("failed" if wrong or not results else "passed",
                   f"one job in all languages: {'; '.join(wrong) or 'no result'}")


def _results(made: Sequence[language_programs.Programs], program: str,
             *arguments: str | pathlib.Path) -> list[dict[str, Any]]:
    """The lines of JSON of a program that needs the Python package."""
    python = next(one for one in made if one.language == "Python")
    done = subprocess.run(
        [python.increments[0], pathlib.Path(__file__).parent / program, *arguments], check=False,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        env={**os.environ, **python.environment})
    return [json.loads(line) for line in done.stdout.splitlines()]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./run clients", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin-dir", type=pathlib.Path, required=True,
                        help="folder of the programs (default: built by ./run clients)")
    parser.add_argument("--only", choices=("python", "node", "go", "java", "together"),
                        help="one part alone; together: programs of all of them")
    parser.add_argument("--with-torch", action="store_true",
                        help="install PyTorch, 6 GB, if it is not there; without it, the tests "
                             "that need it are skipped")
    parser.add_argument("--case", help="of the Python tests, those whose name has it")
    parser.add_argument("-o", "--output", choices=("text", "json", "lines"), default="text",
                        help="json: the last line of stdout is one JSON object")
    return parser.parse_args()


def main() -> None:
    options = parse_arguments()
    start = time.monotonic()
    report = Report()
    bin_dir = options.bin_dir.resolve()
    # Beside each other: both wait more than they compute.
    with concurrent.futures.ThreadPoolExecutor() as threads:
        parts = []
        if options.only in (None, "python"):
            arguments = ["-k", options.case] if options.case else []
            parts.append(threads.submit(test_python, bin_dir, report, arguments,
                                        options.with_torch))
        if options.only in (None, "node") and not options.case:
            parts.append(threads.submit(test_node, bin_dir, report))
        if options.only in (None, "go") and not options.case:
            parts.append(threads.submit(test_go, bin_dir, report))
        if options.only in (None, "java") and not options.case:
            parts.append(threads.submit(test_java, bin_dir, report))
        for part in parts:
            part.result()
    if options.only in (None, "together") and not options.case:
        test_together(bin_dir, report)
    counts = report.counts
    if options.output == "lines":
        print("\n".join([f"counts {counts['passed']} {counts['failed']} {counts['skipped']}",
                         *report.lines]))
    elif options.output == "json":
        print(json.dumps({**counts, "seconds": round(time.monotonic() - start, 1)}))
    else:
        print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    sys.exit(1 if counts["failed"] or not counts["passed"] else 0)


if __name__ == "__main__":
    main()
