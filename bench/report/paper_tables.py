"""The result of `./run bench paper` as Markdown: tables, and a page of their own."""

import tables

_COLUMNS = ("P@1", "P@3", "P@5", "epochs", "samples/s", "training, s", "wall, s", "CPU-s")


def _accuracy(value):
    return f"{value:.4f}"


def _active_share(figures, labels):
    active = figures["active_rows_per_sample"]
    return "–" if active is None else f"{100 * active / labels:.2f} %"


def one_set(result, name):
    """The table of a set, and below it how it was trained and what was left out."""
    measured = result["sets"][name]
    rows, below = [], []
    for key, figures in measured["runs"].items():
        title = result["titles"][key]
        if "left_out" in figures:
            below.append(f"Left out: {title}: {figures['left_out']}.")
            continue
        rows.append(
            [
                title,
                *(_accuracy(figures[f"p_at_{k}"]) for k in (1, 3, 5)),
                tables.number(figures["epochs"]),
                tables.number(figures["samples_per_second"]),
                tables.number(figures["seconds"]),
                tables.number(figures["wall_seconds"]),
                tables.number(figures["cpu_seconds"]),
                _active_share(figures, measured["labels"]),
                tables.number(figures["peak_rss_bytes"] / 1e9),
            ]
        )
    tables_here = measured["num_tables_here"]
    fewer = f" ({tables_here} here)" if tables_here < measured["num_tables"] else ""
    shape = (
        f"{measured['points']:,} training points, {measured['features']:,} features, "
        f"{measured['labels']:,} labels; {measured['paper']}: {measured['hidden']} hidden units, "
        f"batches of {measured['batch']}, {measured['family']} with K = "
        f"{measured['codes_per_table']} and L = {measured['num_tables']}{fewer}."
    )
    head = [name, *_COLUMNS, "active rows", "peak GB"]
    return "\n\n".join([tables.table(head, rows), shape, *below])


def paper(result):
    parts = [one_set(result, name) for name in result["sets"]]
    parts += [f"Not there: {name}: {why}." for name, why in result["absent"].items()]
    return "\n\n".join(parts)


_HEAD = """# The data sets of the papers

This page is made by `./run bench paper --page FOLDER` from measured results; do not edit it.
{points} Tested on at most {test_points:,} points."""


def page(result):
    most = result["points_at_most"]
    points = (
        "Every training saw all points." if most is None else f"Trained on at most {most:,} points."
    )
    head = _HEAD.format(points=points, test_points=result["test_points_at_most"])
    return "\n\n".join([head, paper(result), f"({tables.origin(result)})"]) + "\n"
