"""Seconds of tests, from the JUnit reports of ctest and from GoogleTest's own."""

from __future__ import annotations

import dataclasses
import pathlib
import xml.etree.ElementTree as ElementTree


@dataclasses.dataclass(frozen=True)
class Case:
    """A test that ran. `group` is what stands together in the table."""

    group: str
    name: str
    seconds: float


@dataclasses.dataclass
class Group:
    cases: int = 0
    seconds: float = 0.0


def of_ctest(path: pathlib.Path) -> list[Case]:
    """The tests that ran. `fault.kill_loop` is of the group `fault`; a GoogleTest case that ctest
    knows by itself is of the group `cases in C++`."""
    found = []
    for case in ElementTree.parse(path).iter("testcase"):
        name = case.get("name", "")
        if case.get("status") in ("run", "fail"):
            first = name.partition(".")[0]
            group = first if first.islower() else "cases in C++"
            found.append(Case(group, name, float(case.get("time", 0))))
    return found


def of_googletest(path: pathlib.Path) -> list[Case]:
    """The cases that ran; their group is the name of the file."""
    return [
        Case(path.stem, f"{case.get('classname')}.{case.get('name')}", float(case.get("time", 0)))
        for case in ElementTree.parse(path).iter("testcase")
        if case.get("status") == "run" and case.get("result", "completed") == "completed"
    ]


def read(build_dir: pathlib.Path, since: float) -> tuple[dict[str, Group], list[Case]]:
    """Groups, and single cases, of the reports in the folder that were written since then.

    A ctest entry that has a report reports/NAME.xml of GoogleTest is told by its cases: they are
    its count, and the entry's time is theirs, so that nothing counts twice.
    """
    groups: dict[str, Group] = {}
    cases: list[Case] = []

    def fresh(pattern: str) -> list[pathlib.Path]:
        return sorted(path for path in build_dir.glob(pattern) if path.stat().st_mtime >= since)

    detailed = {path.stem: of_googletest(path) for path in fresh("reports/*.xml")}
    for path in fresh("report-*.xml"):
        for entry in of_ctest(path):
            inner = detailed.pop(entry.name, None)
            group = groups.setdefault(entry.name if inner is not None else entry.group, Group())
            group.cases += 1 if inner is None else len(inner)
            group.seconds += entry.seconds
            cases += [entry] if inner is None else inner
    for name, inner in detailed.items():
        group = groups.setdefault(name, Group())
        group.cases += len(inner)
        group.seconds += sum(case.seconds for case in inner)
        cases += inner
    return groups, cases
