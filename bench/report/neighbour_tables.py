"""The result of `dslide-bench neighbours` as a table and as panels of a plot."""

import tables

WAYS = ("scan", "exact", "impact", "hashed")


def neighbours(result):
    """A row for each set and number of points: cost, memory and recall of each way of searching."""
    rows = []
    for name, sizes in result["sets"].items():
        for size in sizes:
            ways = [size[way] for way in WAYS]
            rows.append([
                name, tables.number(size["points"]), *(tables.number(way["us"]) for way in ways),
                *(f"{size[way]['recall']:.3f}" for way in WAYS[2:]),
                *(tables.number(way["bytes"] / 1e6) for way in ways)])
    return tables.table(
        ["set", "points", *(f"{way}, µs" for way in WAYS),
         *(f"{way}, recall" for way in WAYS[2:]), *(f"{way}, MB" for way in WAYS)], rows)


def panels(result):
    return [(name, {way: [(size["points"], size[way]["us"]) for size in sizes] for way in WAYS})
            for name, sizes in result["sets"].items()]
