"""Fills the template of docs/understand/benchmarks.md with results.

A template is Markdown with
    {{train.samples_per_second}}   a figure of a result, by path; a dash when it was not measured
    {{table train}}                the tables of a result, or how to measure it
    {{table growth.rows}}          one curve of growth
    {{origin train}}               commit, processor, foreign load, date
    {{plot train}}                 a link to a plot, when it was drawn
    <!-- when NAME -->A<!-- otherwise -->B<!-- end -->     A when a fact (facts.py) is true, B when
                                   it is false, neither when its figures were not measured
so that prose cannot contradict the figures.
"""

import re
import textwrap

import tables

_WHEN = re.compile(
    r"<!-- when (?P<name>\w+) -->\n?(?P<yes>.*?)<!-- otherwise -->\n?(?P<no>.*?)<!-- end -->\n?",
    re.DOTALL)
_PLACE = re.compile(r"\{\{(?:(?P<kind>table|origin|plot) )?(?P<path>[\w.]+)\}\}")


class TemplateError(ValueError):
    """A template asks for what does not exist."""


def lookup(results, path):
    """The figure at results[a][b]... of "a.b"; None when it is not there."""
    value = results
    for key in path.split("."):
        if not isinstance(value, dict) or value.get(key) is None:
            return None
        value = value[key]
    return value


def _table(results, path):
    name, _, curve = path.partition(".")
    if name not in tables.SECTIONS:
        raise TemplateError(f"no table of {name!r}; there are: {', '.join(tables.SECTIONS)}")
    result = results.get(name)
    if result is None or (curve and curve not in result["curves"]):
        return f"Not measured yet: `./run bench {name}`."
    return tables.growth_curve(result, curve) if curve else tables.SECTIONS[name](result)


def _short(line):
    """Broken where figures made it longer than a line of the docs may be; rows of tables cannot be."""
    if len(line) <= 120 or line.startswith("|"):
        return line
    return textwrap.fill(line, 110, break_long_words=False, break_on_hyphens=False)


def fill(template, results, facts, plots):
    """facts: {name: True, False or None}; plots: names of the plots that were drawn."""

    def choose(match):
        if match["name"] not in facts:
            raise TemplateError(f"no fact {match['name']!r}; there are: {', '.join(facts)}")
        fact = facts[match["name"]]
        return "" if fact is None else match["yes"] if fact else match["no"]

    def place(match):
        kind, path = match["kind"], match["path"]
        if kind == "table":
            return _table(results, path)
        if kind == "origin":
            result = results.get(path)
            return f"({tables.origin(result)})" if result else ""
        if kind == "plot":
            return f"![{path.replace('_', ' ')}](benchmarks/{path}.svg)" if path in plots else ""
        if path.partition(".")[0] not in tables.SECTIONS:
            raise TemplateError(f"no figure {path!r}: it begins with no benchmark's name")
        return tables.number(lookup(results, path))

    text = _PLACE.sub(place, _WHEN.sub(choose, template))
    left = re.search(r"\{\{.*?\}\}|<!-- (when|otherwise|end)", text)
    if left:
        raise TemplateError(f"not understood: {left.group(0)}")
    lines = re.sub(r"\n{3,}", "\n\n", text).strip().split("\n")
    return "\n".join(map(_short, lines)) + "\n"
