"""Means and standard errors over the runs of a tool."""

import dataclasses
import math
import statistics
from collections.abc import Sequence

import ranking_metrics
from compared_tools import Run

ACCURACY = [f"{name}_at_{k}" for name in ("p", "psp") for k in ranking_metrics.AT]
COST = [field.name for field in dataclasses.fields(Run) if field.name != "ranked"]


def standard_error(values: Sequence[float]) -> float | None:
    """Of their mean; None of fewer than two."""
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None


def of_runs(scores: Sequence[dict[str, float]], runs: Sequence[Run]) -> dict[str, object]:
    """{field: mean} of the scores and of what the runs took, and "standard_errors" of the means."""
    rows = [score | {name: getattr(run, name) for name in COST} for score, run in zip(scores, runs)]
    means: dict[str, float | None] = {}
    errors: dict[str, float | None] = {}
    for name in [*ACCURACY, *COST]:
        values = [row[name] for row in rows if row[name] is not None]
        means[name] = statistics.fmean(values) if values else None
        errors[name] = standard_error(values)
    return {**means, "standard_errors": errors, "runs": len(runs)}
