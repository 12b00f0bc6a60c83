"""Tables in Markdown, and those that a page keeps between two comments."""

from __future__ import annotations

import collections.abc
import re

BEGIN = "<!-- ./run times --write replaces what follows -->"
END = "<!-- until here -->"
# What a table's rows are compared by.
SECONDS = "seconds"
GROWN_SHARE, GROWN_SECONDS = 1.2, 5.0
Cells = collections.abc.Sequence[object]


class PageError(Exception):
    """The page has no place for the tables."""


def cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def table(title: str, header: Cells, rows: collections.abc.Sequence[Cells]) -> str:
    """A heading and a table, or nothing without rows; all columns but the first are numbers."""
    if not rows:
        return ""
    lines = [
        f"### {title}",
        "",
        "| " + " | ".join(map(str, header)) + " |",
        "|" + "---|" + "---:|" * (len(header) - 1),
    ]
    lines += ["| " + " | ".join(map(cell, row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def part(page: str) -> tuple[int, int]:
    """Where the page's kept part begins and ends."""
    begin, end = page.find(BEGIN), page.find(END)
    if begin < 0 or end < begin:
        raise PageError(f"needs the lines '{BEGIN}' and '{END}', in this order")
    return begin + len(BEGIN), end


def seconds(text: str) -> dict[tuple[str, str], float]:
    """{(title of the table, name of the row): seconds} of tables in Markdown."""
    found = {}
    title, column = "", None
    for line in text.splitlines():
        if line.startswith("### "):
            title, column = line[4:], None
        elif line.startswith("| "):
            cells = [text.strip() for text in line.strip("|").split("|")]
            if SECONDS in cells:
                column = cells.index(SECONDS)
            elif column is not None and re.fullmatch(r"[\d,.]+", cells[column]):
                found[title, cells[0]] = float(cells[column].replace(",", ""))
    return found


def grown(before: str, after: str) -> list[tuple[str, str, float, float]]:
    """(title, row, seconds before, seconds now) of what has grown by more than a fifth and 5 s."""
    kept = seconds(before)
    return [
        (*key, kept[key], now)
        for key, now in seconds(after).items()
        if key in kept and now > kept[key] * GROWN_SHARE and now - kept[key] > GROWN_SECONDS
    ]
