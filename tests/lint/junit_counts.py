"""Counts the cases of a ctest JUnit report, for ./run test.

Prints `counts PASSED FAILED SKIPPED`, then `failed NAME` and `skipped NAME` lines. A case that
ctest could not start counts as failed; one that skipped itself counts as skipped.
"""

import sys
import xml.etree.ElementTree as ET


def main():
    suite = ET.parse(sys.argv[1]).getroot()
    passed, failed, skipped = 0, [], []
    for case in suite.iter("testcase"):
        name, status = case.get("name"), case.get("status")
        if status == "run":
            passed += 1
            continue
        message = case.find("skipped")
        reason = message.get("message", "") if message is not None else ""
        if status == "disabled" or (status == "notrun" and reason.startswith("SKIP_")):
            skipped.append(name)
        else:
            failed.append(name)
    print(f"counts {passed} {len(failed)} {len(skipped)}")
    for name in failed:
        print(f"failed {name}")
    for name in skipped:
        print(f"skipped {name}")


if __name__ == "__main__":
    main()
