"""Lists the behaviours that are tested, from the sources alone: kind, place, name, tier.

With --against REV it tells what was removed, added, moved and put into another tier since that
revision. A removed behaviour is an error (status 1) until tests/removed_behaviours.tsv has a line
for it: a pattern for its name, a tab, and the name of the behaviour that still shows it, or
`gone: WHY`.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import fnmatch
import json
import operator
import pathlib
import sys

import found_tests
from found_tests import Behaviour

ROOT = pathlib.Path(__file__).resolve().parents[2]
REVIEWED = "tests/removed_behaviours.tsv"


@dataclasses.dataclass
class Difference:
    added: list[Behaviour] = dataclasses.field(default_factory=list)
    removed: list[Behaviour] = dataclasses.field(default_factory=list)
    moved: list[tuple[Behaviour, Behaviour]] = dataclasses.field(default_factory=list)
    tiers: list[tuple[Behaviour, Behaviour]] = dataclasses.field(default_factory=list)


def difference(before: list[Behaviour], after: list[Behaviour]) -> Difference:
    """What has moved has its whole name elsewhere, or its name without the suite, and only once."""
    old, new = {b.key: b for b in before}, {b.key: b for b in after}
    removed = [old[key] for key in sorted(old.keys() - new.keys())]
    added = [new[key] for key in sorted(new.keys() - old.keys())]
    moved = []
    for same in ("name", "case"):
        name = operator.attrgetter(same)
        wanted, offered = (collections.Counter(map(name, side)) for side in (removed, added))
        places = {name(b): b for b in added}
        pairs = [(b, places[name(b)]) for b in removed if wanted[name(b)] == offered[name(b)] == 1]
        removed = [b for b in removed if b not in {pair[0] for pair in pairs}]
        added = [b for b in added if b not in {pair[1] for pair in pairs}]
        moved += pairs
    kept = moved + [(old[key], new[key]) for key in sorted(old.keys() & new.keys())]
    return Difference(
        added, removed, moved, [pair for pair in kept if pair[0].tier != pair[1].tier]
    )


def review(text: str, names: set[str]) -> tuple[dict[str, str], list[str]]:
    """{pattern: what stands for it} of the reviewed removals, and what is wrong with the file."""
    reviewed, problems = {}, []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        pattern, _, instead = (part.strip() for part in line.partition("\t"))
        reviewed[pattern] = instead
        if not instead.startswith("gone: ") and instead not in names:
            problems.append(
                f"{REVIEWED}:{number}: {instead or 'nothing'!r} is no behaviour that is "
                "tested; name one, or say 'gone: WHY'"
            )
    return reviewed, problems


def show(title: str, lines: list[str]) -> None:
    if lines:
        print(f"{title} ({len(lines)}):", *lines, "", sep="\n  ")


def compare(
    before: list[Behaviour], after: list[Behaviour], reviewed_text: str, output: str
) -> int:
    changes = difference(before, after)
    reviewed, problems = review(reviewed_text, {b.name for b in after})

    def reason(removed: Behaviour) -> str:
        return next(
            (
                instead
                for pattern, instead in reviewed.items()
                if fnmatch.fnmatchcase(removed.name, pattern)
            ),
            "",
        )

    unreviewed = [b for b in changes.removed if not reason(b)]
    if output == "json":
        print(
            json.dumps(
                {
                    "before": len(before),
                    "after": len(after),
                    "unreviewed": [str(b) for b in unreviewed],
                    "problems": problems,
                    "removed": {str(b): reason(b) for b in changes.removed},
                    "added": [str(b) for b in changes.added],
                    "moved": [[str(b), str(a)] for b, a in changes.moved],
                    "tiers": [[str(a), b.tier, a.tier] for b, a in changes.tiers],
                }
            )
        )
    else:
        show("added", [str(b) for b in changes.added])
        show("moved", [f"{b}\n    -> {a}" for b, a in changes.moved])
        show("in another tier", [f"{a}: {b.tier} -> {a.tier}" for b, a in changes.tiers])
        show(
            "removed, reviewed", [f"{b}\n    -> {reason(b)}" for b in changes.removed if reason(b)]
        )
        show(f"REMOVED, not in {REVIEWED}", [str(b) for b in unreviewed])
        show("problems", problems)
        print(
            f"{len(before)} before, {len(after)} after; {len(changes.added)} added, "
            f"{len(changes.moved)} moved, {len(changes.removed)} removed, "
            f"{len(unreviewed)} of them not reviewed"
        )
    return 1 if unreviewed or problems else 0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="./run behaviours",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--against", metavar="REV", help="compare with this revision of git")
    parser.add_argument(
        "-o",
        "--output",
        choices=("text", "json"),
        default="text",
        help="json: the last line of stdout is one JSON object",
    )
    options = parser.parse_args()
    try:
        now = found_tests.behaviours(found_tests.working_tree(ROOT))
        if options.against:
            before = found_tests.behaviours(found_tests.git_tree(ROOT, options.against))
            reviewed = ROOT / REVIEWED
            text = reviewed.read_text(encoding="utf-8") if reviewed.is_file() else ""
            return compare(before, now, text, options.output)
    except (found_tests.SourceError, SyntaxError) as error:
        print(f"behaviours: {error}", file=sys.stderr)
        return 1
    counts = collections.Counter(behaviour.kind for behaviour in now)
    if options.output == "json":
        print(json.dumps({"behaviours": [dataclasses.asdict(b) for b in now], "counts": counts}))
    else:
        print(*now, sep="\n")
        print(
            f"{len(now)} behaviours:",
            ", ".join(f"{n} {kind}" for kind, n in counts.items()),
            file=sys.stderr,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
