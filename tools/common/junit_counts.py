"""Counts the cases of a ctest JUnit report, for ./run test.

usage: junit_counts.py REPORT.xml FOLDER

FOLDER has a report NAME.xml of each GoogleTest program and file of pytest that ctest ran as NAME;
its cases are counted instead of the program. Prints `counts PASSED FAILED SKIPPED`, then `failed
NAME` and `skipped NAME: WHY` lines. What could not be started, or ended without a report, counts as
failed; what skipped itself counts as skipped.
"""

import pathlib
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator

# Of what a failed case says: enough to know it again, with the whole in the output above.
_SHOWN_CHARACTERS = 500


def outcome_of_entry(case: ET.Element) -> tuple[str, str]:
    """What ctest says of one of its entries: passed, failed or skipped, and why."""
    message = case.find("skipped")
    reason = message.get("message", "") if message is not None else ""
    status = case.get("status")
    if status == "run":
        return "passed", ""
    if status == "disabled" or (status == "notrun" and reason.startswith("SKIP_")):
        return "skipped", ""
    return "failed", ""


def outcome_of_case(case: ET.Element) -> tuple[str, str]:
    """The same of a case of GoogleTest, pytest or JUnit."""
    for failure in (*case.findall("failure"), *case.findall("error")):
        said = failure.get("message", "").strip() or (failure.text or "").strip()
        return "failed", said[:_SHOWN_CHARACTERS].replace("\n", " | ")
    skipped = case.find("skipped")
    if skipped is not None:
        if skipped.get("type") == "pytest.skip":
            return "skipped", skipped.get("message", "")
        # The first line is the place in the source.
        return "skipped", " ".join((skipped.text or "").split("\n")[1:]).strip()
    return "passed", ""


def outcomes(report: pathlib.Path, folder: pathlib.Path) -> Iterator[tuple[str, str, str]]:
    """(name, outcome, why) of every case."""
    for entry in ET.parse(report).getroot().iter("testcase"):
        name = entry.get("name", "")
        own = folder / f"{name}.xml"
        verdict, why = outcome_of_entry(entry)
        if not own.is_file():
            yield name, verdict, why
            continue
        found = [(f"{case.get('classname')}.{case.get('name')}", *outcome_of_case(case))
                 for case in ET.parse(own).getroot().iter("testcase")]
        yield from found
        # A leak or a crash after the last case.
        if verdict == "failed" and all(outcome != "failed" for _, outcome, _ in found):
            yield name, verdict, why


def main() -> None:
    found = list(outcomes(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])))
    counts = [sum(outcome == wanted for _, outcome, _ in found)
              for wanted in ("passed", "failed", "skipped")]
    print("counts", *counts)
    for name, outcome, why in found:
        if outcome != "passed":
            print(f"{outcome} {name}{': ' + why if why else ''}")


if __name__ == "__main__":
    main()
