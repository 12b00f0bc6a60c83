"""Writes the table of values in helm/dslide/README.md from the comments of values.yaml.

usage: values_readme.py [--check]     --check changes nothing and ends with 1 when the table is old

A value's comment is the line `# -- text` above it. A value with a comment is a row; the values
inside it get rows of their own when they have comments.
"""

import json
import re
import sys

import chart
import yaml

README = chart.CHART / "README.md"
BEGIN, END = "<!-- values: begin (tests/chart/values_readme.py) -->", "<!-- values: end -->"
_KEY = re.compile(r"^( *)([A-Za-z][A-Za-z0-9]*):")
_COMMENT = re.compile(r"^ *# -- (.*)$")


def documented(text):
    """(path, description) of each key of the YAML text in order; description '' without a comment."""
    trail, description = [], ""
    for line in text.split("\n"):
        comment = _COMMENT.match(line)
        key = _KEY.match(line)
        if comment:
            description = comment.group(1)
        elif key:
            depth = len(key.group(1)) // 2
            trail = trail[:depth] + [key.group(2)]
            yield tuple(trail), description
            description = ""
        elif line.strip():
            description = ""


def look_up(values, path):
    for key in path:
        values = values[key]
    return values


def rows(text):
    """(name, default, description) of each row of the table."""
    values = yaml.safe_load(text)
    seen = list(documented(text))
    for path, description in seen:
        if description:
            inner = [other for other, said in seen if said and len(other) > len(path) and other[: len(path)] == path]
            default = "(see below)" if inner else f"`{json.dumps(look_up(values, path))}`"
            yield ".".join(path), default, description


def undocumented(text):
    """Paths of values that neither have a comment nor stand inside a value that has one."""
    values = yaml.safe_load(text)
    seen = list(documented(text))
    said = {path for path, description in seen if description}
    for path, _ in seen:
        covered = any(path[:length] in said for length in range(1, len(path) + 1))
        if not covered and not isinstance(look_up(values, path), dict):
            yield ".".join(path)


def table(text):
    lines = ["| value | default | meaning |", "| --- | --- | --- |"]
    for name, default, description in rows(text):
        escaped = default.replace("|", "\\|"), description.replace("|", "\\|")
        lines.append(f"| `{name}` | {escaped[0]} | {escaped[1]} |")
    return "\n".join(lines)


def filled_in(readme, values_text):
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(values_text)}\n{END}{after}"


def main(arguments):
    readme = README.read_text()
    wanted = filled_in(readme, (chart.CHART / "values.yaml").read_text())
    if arguments == ["--check"]:
        if readme != wanted:
            print("README.md of the chart is older than values.yaml: run tests/chart/values_readme.py")
        return int(readme != wanted)
    README.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
