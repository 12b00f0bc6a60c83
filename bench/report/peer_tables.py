"""The result of `./run bench peers` as Markdown: tables, and a page of their own."""

import math

import tables

_ACCURACY = [
    ("p_at_1", "P@1"),
    ("p_at_3", "P@3"),
    ("p_at_5", "P@5"),
    ("psp_at_1", "PSP@1"),
    ("psp_at_3", "PSP@3"),
    ("psp_at_5", "PSP@5"),
]
_COST = [
    ("cpu_seconds", "CPU-s", 1),
    ("wall_seconds", "wall, s", 1),
    ("process_cpu_seconds", "CPU-s of the process", 1),
    ("peak_rss_bytes", "peak MB", 1e6),
    ("model_bytes", "model MB", 1e6),
    ("predict_p50_ms", "p50 of a prediction, ms", 1),
]


def _with_error(figures, field):
    """ "0.6110 ± 0.0012"; without what chance does where there was one run."""
    error = figures["standard_errors"].get(field)
    return f"{figures[field]:.4f}" + ("" if error is None else f" ± {error:.4f}")


def _chance(measured):
    """The standard error of the best P@1 by the choice of the test points."""
    best = max(figures["p_at_1"] for figures in measured["tools"].values())
    return math.sqrt(best * (1 - best) / measured["test_points"])


def one_set(result, name):
    """The table of a data set, and below it what was left out."""
    measured = result["sets"][name]
    rows = []
    for key, figures in measured["tools"].items():
        rows.append(
            [
                result["titles"][key],
                *(_with_error(figures, field) for field, _ in _ACCURACY),
                *(
                    tables.number(None if figures[field] is None else figures[field] / unit)
                    for field, _, unit in _COST
                ),
            ]
        )
    parts = [
        tables.table(
            [name, *(title for _, title in _ACCURACY), *(title for _, title, _ in _COST)], rows
        )
    ]
    chance = (
        f"; another choice of test points would move P@1 by {_chance(measured):.4f}" if rows else ""
    )
    parts.append(
        f"{measured['points']:,} training and {measured['test_points']:,} test points, "
        f"{measured['features']:,} features, {measured['labels']:,} labels{chance}."
    )
    parts += [
        f"Left out: {result['titles'][key]}: {why}." for key, why in measured["left_out"].items()
    ]
    return "\n\n".join(parts)


def peers(result):
    parts = [one_set(result, name) for name in result["sets"]]
    if result["skipped"]:
        parts.append(f"Not there: {', '.join(result['titles'][key] for key in result['skipped'])}.")
    return "\n\n".join(parts)


def panels(result):
    """What plots.accuracy_against_cost() draws: (title, [(tool, CPU-seconds, P@1, its error)])."""
    return [
        (
            name,
            [
                (
                    result["titles"][key],
                    figures["cpu_seconds"],
                    figures["p_at_1"],
                    figures["standard_errors"]["p_at_1"] or 0,
                )
                for key, figures in measured["tools"].items()
            ],
        )
        for name, measured in result["sets"].items()
    ]


_HEAD = """# dslide beside its peers

This page is made by `./run bench peers --page FOLDER` from measured results; do not edit it. All
tools ran on the same files, one after the other, none with settings of its own for a data set.
{runs}"""

_COUNTED = """## What is counted

Accuracy: every tool ranks labels for the same test points, and one function counts P@k and PSP@k of
these rankings. Processor time (CPU-s, user and system) and wall time are those of training:

{counted}

*CPU-s of the process* is the whole training process with its start and the reading of the data.
Peak memory is of that process, the model is the bytes of its files. The p50 is the median time of
predicting one point on one thread: a call of the Python package, and of dslide a line of text
through a pipe and back.

Versions: {versions}."""


def page(result, plot):
    """The whole page; `plot` is the name of the plot beside it."""
    seeds = result["seeds"]
    runs = (
        f"Figures are means of {seeds} seeds; behind ± is their standard error."
        if seeds > 1
        else "Every tool was trained once."
    )
    counted = "\n".join(
        f"- {result['titles'][key]} ({result['settings'][key]}): {what}"
        for key, what in result["counted"].items()
        if key not in result["skipped"]
    )
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    return (
        "\n\n".join(
            [
                _HEAD.format(runs=runs),
                f"![accuracy against processor time]({plot})",
                peers(result),
                _COUNTED.format(counted=counted, versions=versions),
                f"({tables.origin(result)})",
            ]
        )
        + "\n"
    )
