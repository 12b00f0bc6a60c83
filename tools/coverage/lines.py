"""Counts of lines: read from llvm-cov's lcov report, summed by folder, shown."""

from __future__ import annotations

import pathlib
from typing import Any

PARTS = ("core", "services")
# {path from the root: {line: how often it ran}}
Files = dict[str, dict[int, int]]
# Sums by name: `total`, `parts`, `folders`, `files`; as -o json prints it.
Summary = dict[str, Any]


def parse(report: str, root: pathlib.Path) -> Files:
    """The files of PARTS. A line is as covered as its best instance, whoever includes its file."""
    found: Files = {}
    lines: dict[int, int] = {}
    for line in report.splitlines():
        key, _, value = line.partition(":")
        if key == "SF":
            path = pathlib.PurePath(value)
            name = path.relative_to(root).as_posix() if path.is_relative_to(root) else ""
            lines = (
                found.setdefault(name, {}) if name.startswith(tuple(f"{p}/" for p in PARTS)) else {}
            )
        elif key == "DA":
            number, count = map(int, value.split(",")[:2])
            lines[number] = max(lines.get(number, 0), count)
    return found


def _sum(files: list[dict[int, int]]) -> dict[str, float]:
    lines = sum(len(file) for file in files)
    covered = sum(1 for file in files for count in file.values() if count)
    return {
        "files": len(files),
        "lines": lines,
        "covered": covered,
        "percent": round(100 * covered / lines, 2) if lines else 0.0,
    }


def summary(files: Files) -> Summary:
    """Sums by file, by folder, of core and of services, and of all."""
    folders = sorted({path.rpartition("/")[0] for path in files})
    return {
        "total": _sum(list(files.values())),
        "parts": {
            part: _sum([file for path, file in files.items() if path.startswith(f"{part}/")])
            for part in PARTS
        },
        "folders": {
            folder: _sum(
                [file for path, file in files.items() if path.rpartition("/")[0] == folder]
            )
            for folder in folders
        },
        "files": {path: _sum([file]) for path, file in sorted(files.items())},
    }


def table(result: Summary) -> str:
    rows = [*result["folders"].items(), *result["parts"].items(), ("total", result["total"])]
    lines = ["| folder | files | lines | covered | share |", "|---|---:|---:|---:|---:|"]
    shape = "| {name} | {files:,} | {lines:,} | {covered:,} | {percent:.2f} % |"
    lines += [shape.format(name=name, **row) for name, row in rows]
    return "\n".join(lines)


def spans(lines: dict[int, int]) -> str:
    """The lines that did not run, as 3-5, 9; lines without code between two of them join them."""
    found: list[list[int]] = []
    joined = False
    for number, count in sorted(lines.items()):
        if count == 0:
            if joined:
                found[-1][1] = number
            else:
                found.append([number, number])
        joined = count == 0
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in found) or "none"


def absent(files: Files, root: pathlib.Path) -> list[str]:
    """Sources on disk of which the report says nothing."""
    return [
        path.relative_to(root).as_posix()
        for part in PARTS
        for path in sorted((root / part).rglob("*.cc"))
        if path.relative_to(root).as_posix() not in files
    ]
