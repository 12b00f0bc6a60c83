"""The table of values in helm/dslide/README.md, made from the comments of values.yaml.

A value's comment is the line `# -- text` above it. A value with a comment is a row; the values
inside it get rows of their own when they have comments. `./run chart --update` writes the table.
"""

import json
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import yaml

README = pathlib.Path(__file__).resolve().parents[2] / "helm/dslide/README.md"
BEGIN, END = "<!-- values: begin (tools/chart/values_readme.py) -->", "<!-- values: end -->"
_KEY = re.compile(r"^( *)([A-Za-z][A-Za-z0-9]*):")
_COMMENT = re.compile(r"^ *# -- (.*)$")


def documented(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """(path, description) of each key of the YAML text in order; '' without a comment."""
    trail: tuple[str, ...] = ()
    description = ""
    for line in text.split("\n"):
        if comment := _COMMENT.match(line):
            description = comment.group(1)
        elif key := _KEY.match(line):
            trail = (*trail[: len(key.group(1)) // 2], key.group(2))
            yield trail, description
            description = ""
        elif line.strip():
            description = ""


def look_up(values: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        values = values[key]
    return values


def rows(text: str) -> Iterator[tuple[str, str, str]]:
    """(name, default, description) of each row of the table."""
    values = yaml.safe_load(text)
    said = {path: description for path, description in documented(text) if description}
    for path, description in said.items():
        inside = any(other[: len(path)] == path for other in said if len(other) > len(path))
        default = "(see below)" if inside else f"`{json.dumps(look_up(values, path))}`"
        yield ".".join(path), default, description


def undocumented(text: str) -> list[str]:
    """Paths of values that neither have a comment nor stand inside a value that has one."""
    values = yaml.safe_load(text)
    said = {path for path, description in documented(text) if description}
    return [".".join(path) for path, _ in documented(text)
            if not any(path[:length] in said for length in range(1, len(path) + 1))
            and not isinstance(look_up(values, path), dict)]


def table(text: str) -> str:
    lines = ["| value | default | meaning |", "| --- | --- | --- |"]
    lines += [f"| `{name}` | {default} | {description} |" for name, default, description in (
        [cell.replace("|", "\\|") for cell in row] for row in rows(text))]
    return "\n".join(lines)


def filled_in(readme: str, values_text: str) -> str:
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(values_text)}\n{END}{after}"
