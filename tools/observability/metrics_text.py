"""Reads a page in Prometheus' text format."""

import dataclasses
import re

_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)")
_HISTOGRAM_PARTS = ("_bucket", "_sum", "_count")


@dataclasses.dataclass
class Family:
    """All series of one metric."""

    name: str
    kind: str = "untyped"
    help: str = ""
    labels: dict[str, set[str]] = dataclasses.field(default_factory=dict)
    series: int = 0


# {name: Family}
Page = dict[str, Family]


def parse(text: str) -> Page:
    """The parts of a histogram are one family."""
    families: Page = {}
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name, _, rest = line[7:].partition(" ")
            families.setdefault(name, Family(name)).help = rest
        elif line.startswith("# TYPE "):
            name, _, kind = line[7:].partition(" ")
            families.setdefault(name, Family(name)).kind = kind
        elif match := _SAMPLE.match(line):
            name, labels, _ = match.groups()
            if name not in families:
                name = next((name[: -len(part)] for part in _HISTOGRAM_PARTS
                             if name.endswith(part)), name)
            family = families.setdefault(name, Family(name))
            family.series += 1
            for label, value in _LABEL.findall(labels or ""):
                if label != "le":
                    family.labels.setdefault(label, set()).add(value)
    return families
