"""Adds 1 to four rows for each line of stdin, and says of every update what became of it.

python increments.py COORDINATOR FIRST_ROW TIMEOUT_SECONDS [CA CERT KEY]

Update n, from 0, is of the rows FIRST_ROW + 4 n and the three after it. stdout: a line of JSON for
each update, {"update", "outcome", "reason"}.
"""

from __future__ import annotations

import json
import sys

import numpy as np

import dslide

CELLS = "cells"  # the model, and its only table
ROWS_OF_UPDATE = 4


def outcome_of(error: dslide.DslideError) -> str:
    return "refused" if error.applied is False else "unknown"


def run(coordinator: str, first_row: int, timeout: float, tls: dslide.Tls | None) -> None:
    with dslide.connect(coordinator, tls=tls, timeout=timeout, patience=timeout) as cluster:
        table = {"name": CELLS, "rows": 200_000, "dim": 1, "init": {"kind": "zero"}}
        spec = {"name": CELLS, "tables": [table | {"optimizer": {"kind": "sgd"}}]}
        model = cluster.create_model(spec)
        ones = np.ones((ROWS_OF_UPDATE, 1), np.float32)
        for update, _ in enumerate(sys.stdin):
            rows = first_row + ROWS_OF_UPDATE * update + np.arange(ROWS_OF_UPDATE)
            said = {"update": update, "outcome": "applied", "reason": ""}
            try:
                model.scatter(CELLS, rows, ones, mode="add")
            except dslide.DslideError as error:
                said |= {"outcome": outcome_of(error), "reason": error.reason}
            print(json.dumps(said), flush=True)


def main() -> None:
    parts = sys.argv[1:]
    if len(parts) not in (3, 6):
        sys.exit("usage: increments.py COORDINATOR FIRST_ROW TIMEOUT_SECONDS [CA CERT KEY]")
    tls = dslide.Tls(*parts[3:]) if len(parts) == 6 else None
    try:
        run(parts[0], int(parts[1]), float(parts[2]), tls)
    except dslide.DslideError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
