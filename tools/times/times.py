"""Where the time of the last check went: its steps, its compilers, its tests.

Reads build/steps.tsv, which ./run writes, and of each build folder ninja's log and the reports of
the tests. Compile times are of each object as it was last compiled, whichever check did it; tests
are those of the last check. Then tells what has grown since the tables of docs/contribute/checks.md
by more than 20 % and 5 s.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import kept
import ninja_log
import test_reports

ROOT = pathlib.Path(__file__).resolve().parents[2]
_SLOWEST = 10


@dataclasses.dataclass(frozen=True)
class Step:
    name: str
    seconds: float
    cpu_seconds: float


@dataclasses.dataclass
class Check:
    name: str = "no check yet"
    begun: float = 0.0  # seconds since 1970
    steps: list[Step] = dataclasses.field(default_factory=list)  # the last is `total`


def last_check(path: pathlib.Path) -> Check:
    """The journal's last check; one without steps where there is no journal."""
    if not path.is_file():
        return Check()
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    if not rows:
        return Check()
    last = rows[-1]
    rows = [
        row
        for row in rows
        if (row["check_time"], row["check"]) == (last["check_time"], last["check"])
    ]
    steps = [
        Step(
            row["step"],
            float(row["seconds"]),
            float(row["user_seconds"]) + float(row["system_seconds"]),
        )
        for row in rows
    ]
    begun = datetime.datetime.fromisoformat(rows[0]["check_time"]).timestamp()
    return Check(f"./run {rows[0]['check']}", begun, steps)


def machine() -> str:
    model = re.search(
        r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE
    )
    return f"{os.cpu_count()} × {model.group(1) if model else 'unknown processor'}"


def commit() -> str:
    shown = subprocess.run(
        ["git", "-C", ROOT, "describe", "--always", "--dirty", "--exclude=*"],
        capture_output=True,
        text=True,
        check=False,
    )
    return shown.stdout.strip() or "unknown"


def steps_table(check: Check) -> str:
    total = sum(step.seconds for step in check.steps if step.name == "total")
    total = total or sum(step.seconds for step in check.steps)
    rows = [
        (step.name, step.seconds, f"{100 * step.seconds / (total or 1):.0f} %", step.cpu_seconds)
        for step in check.steps
    ]
    return kept.table("Steps", ("step", "seconds", "share", "CPU seconds"), rows)


def largest(rows: list[Any], column: int, count: int = _SLOWEST) -> list[Any]:
    return sorted(rows, key=lambda row: -row[column])[:count]


def compile_tables(root: pathlib.Path, names: list[str]) -> tuple[dict[str, Any], list[str]]:
    """What compilers and linkers did in the build folders, as data and as tables."""
    data: dict[str, Any] = {}
    rows: dict[str, list[Any]] = {"part": [], "target": []}
    objects: list[tuple[str, float]] = []
    for name in names:
        if not (root / name / ".ninja_log").is_file():
            continue
        log = ninja_log.read(root / name)
        edges = ninja_log.newest(log)
        data[name] = {"last_run_seconds": ninja_log.runs(log)[-1][-1].end if log else 0.0}
        for by, found in rows.items():
            sums = ninja_log.sums(edges, by)
            data[name][by] = {key: dataclasses.asdict(part) for key, part in sums.items()}
            for key, part in sums.items():
                found.append((f"{name}: {key}", *dataclasses.astuple(part)))
        compiled = [edge for edge in edges if edge.kind == ninja_log.OBJECT]
        objects += [(f"{name}: {edge.source}", edge.seconds) for edge in compiled]
    columns = ("objects", "seconds", "cached", "links", "link seconds")
    parts, targets = largest(rows["part"], 2, len(rows["part"])), largest(rows["target"], 2)
    return data, [
        kept.table("Compiling", ("part", *columns), parts),
        kept.table("Targets that take longest to compile", ("target", *columns), targets),
        kept.table("Slowest objects", ("object", "seconds"), largest(objects, 1)),
    ]


def test_tables(
    root: pathlib.Path, names: list[str], since: float
) -> tuple[dict[str, Any], list[str]]:
    """What the tests took whose reports were written since then."""
    data: dict[str, Any] = {}
    groups: list[tuple[str, int, float]] = []
    slowest: list[tuple[str, float]] = []
    for name in names:
        by_group, cases = test_reports.read(root / name, since)
        data[name] = {key: dataclasses.asdict(group) for key, group in by_group.items()}
        groups += [(f"{name}: {key}", of.cases, of.seconds) for key, of in by_group.items()]
        slowest += [(f"{name}: {case.name}", case.seconds) for case in cases]
    return data, [
        kept.table("Tests", ("group", "tests", "seconds"), largest(groups, 2, len(groups))),
        kept.table("Slowest tests", ("test", "seconds"), largest(slowest, 1)),
    ]


def collect(root: pathlib.Path, build_dirs: list[str]) -> tuple[dict[str, Any], str]:
    """The figures as data, and as Markdown."""
    check = last_check(root / "build/steps.tsv")
    compiling, compile_text = compile_tables(root, build_dirs)
    tests, test_text = test_tables(root, build_dirs, check.begun)
    data = {
        "check": dataclasses.asdict(check),
        "machine": machine(),
        "commit": commit(),
        "compile": compiling,
        "tests": tests,
    }
    about = (
        f"`{check.name}`, commit `{data['commit']}`, {datetime.date.today()}, {data['machine']}."
    )
    tables = [table for table in (steps_table(check), *compile_text, *test_text) if table]
    return data, "\n".join((f"{about}\n", *tables))


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="./run times",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--write", action="store_true",
                        help="keep the tables in docs/contribute/checks.md")
    parser.add_argument(
        "--build-dir",
        action="append",
        metavar="DIR",
        dest="build_dirs",
        help="read this folder; may be repeated (default: build and build-asan)",
    )
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help=argparse.SUPPRESS)
    parser.add_argument(
        "-o",
        "--output",
        choices=("text", "json"),
        default="text",
        help="json: the last line of stdout is one JSON object",
    )
    options = parser.parse_args()
    page = options.root / "docs/contribute/checks.md"
    try:
        data, text = collect(options.root, options.build_dirs or ["build", "build-asan"])
        before = page.read_text(encoding="utf-8")
        begin, end = kept.part(before)
    except kept.PageError as error:
        print(f"times: {page} {error}", file=sys.stderr)
        return 1
    except (ninja_log.LogError, OSError) as error:
        print(f"times: {error}", file=sys.stderr)
        return 1
    grown = kept.grown(before[begin:end], text)
    data["grown"] = grown
    if options.write:
        page.write_text(f"{before[:begin]}\n\n{text}\n{before[end:]}", encoding="utf-8")
    print(json.dumps(data) if options.output == "json" else text)
    if kept.seconds(before[begin:end]) and data["machine"] not in before[begin:end]:
        print(f"NOTE: the tables in {page} are of another machine", file=sys.stderr)
    for title, row, old, new in grown:
        print(f"GROWN: {title}, {row}: {old:.1f} s -> {new:.1f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
