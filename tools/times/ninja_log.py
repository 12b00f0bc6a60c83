"""What ninja's log says about a build folder: the edges as they last ran, by part of the tree."""

from __future__ import annotations

import collections
import dataclasses
import pathlib
import re

# An object this fast came out of the compiler cache: <string> alone takes longer.
CACHED_SECONDS = 0.3
OBJECT, LINK, OTHER = "object", "link", "other"
_OBJECT = re.compile(r"\.(o|obj|gch|pch)$")
_LINK = re.compile(r"\.(a|so)(\.\d+)*$|^bin/[^/.]+$")
_HEADER_VERSIONS = range(5, 8)


class LogError(Exception):
    """The log cannot be read."""


@dataclasses.dataclass(frozen=True)
class Edge:
    """One command of the build, as it last ran. Times are in seconds of its run of ninja."""

    output: str
    begin: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.begin

    @property
    def kind(self) -> str:
        if _OBJECT.search(self.output):
            return OBJECT
        return LINK if _LINK.search(self.output) else OTHER

    @property
    def part(self) -> str:
        """Which part of the tree it is of, by its folder."""
        if self.output.endswith((".gch", ".pch")):
            return "precompiled headers"
        folder = self.output.split("/")[0]
        if folder == "bin":
            return "programs and test programs"
        return {"tests": "tests", "bench": "benchmarks"}.get(folder, "libraries")

    @property
    def target(self) -> str:
        found = re.search(r"CMakeFiles/([^/]+)\.dir/", self.output)
        return found.group(1) if found else pathlib.PurePosixPath(self.output).name

    @property
    def source(self) -> str:
        """The output without what CMake puts into its name."""
        return re.sub(r"CMakeFiles/[^/]+\.dir/|\.o$", "", self.output)


def parse(text: str) -> list[Edge]:
    """The log's entries in their order; several outputs of one command are one edge, the first."""
    lines = text.splitlines()
    header = re.fullmatch(r"# ninja log v(\d+)", lines[0]) if lines else None
    if not header or int(header.group(1)) not in _HEADER_VERSIONS:
        raise LogError(
            f"first line is {lines[0] if lines else ''!r}; known are '# ninja log v5' to v7"
        )
    found: list[Edge] = []
    command = None
    for line in lines[1:]:
        fields = line.split("\t")
        # A killed ninja may leave a part of a line.
        if len(fields) != 5 or not (fields[0] + fields[1]).isdigit():
            continue
        begin, end, _, output, digest = fields
        if (begin, end, digest) != command:
            found.append(Edge(output, int(begin) / 1000, int(end) / 1000))
        command = (begin, end, digest)
    return found


def runs(edges: list[Edge]) -> list[list[Edge]]:
    """The edges by run of ninja: entries come in order of their ends, by a clock of each run."""
    found: list[list[Edge]] = []
    last = float("inf")
    for edge in edges:
        if edge.end < last:
            found.append([])
        found[-1].append(edge)
        last = edge.end
    return found


def newest(edges: list[Edge]) -> list[Edge]:
    """The last edge of each output."""
    return list({edge.output: edge for edge in edges}.values())


@dataclasses.dataclass
class Part:
    """Sums over the edges of a part or of a target."""

    objects: int = 0
    seconds: float = 0.0  # of objects; of all compilers added up
    cached: int = 0
    links: int = 0
    link_seconds: float = 0.0

    def add(self, edge: Edge) -> None:
        if edge.kind == OBJECT:
            self.objects += 1
            self.seconds += edge.seconds
            self.cached += edge.seconds < CACHED_SECONDS
        elif edge.kind == LINK:
            self.links += 1
            self.link_seconds += edge.seconds


def sums(edges: list[Edge], key: str) -> dict[str, Part]:
    """{`part` or `target`: sums}, most seconds first; of what compiles and links alone."""
    found: collections.defaultdict[str, Part] = collections.defaultdict(Part)
    for edge in edges:
        if edge.kind != OTHER:
            found[getattr(edge, key)].add(edge)
    return dict(sorted(found.items(), key=lambda item: -item[1].seconds - item[1].link_seconds))


def read(build_dir: pathlib.Path) -> list[Edge]:
    """The edges of the folder's log, in their order; without outputs that are no longer there."""
    path = build_dir / ".ninja_log"
    try:
        edges = parse(path.read_text(encoding="utf-8"))
    except LogError as error:
        raise LogError(f"{path}: {error}") from None
    return [edge for edge in edges if (build_dir / edge.output).exists()]
