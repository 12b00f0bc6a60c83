"""A data set as words, one for each feature.

fastText reads them, and so does `dslide predict` from its stdin.
"""

import pathlib
from collections.abc import Sequence

import sparse_text

LABEL = "__label__"  # fastText's own mark


def words(ids: Sequence[int], values: Sequence[float]) -> str:
    """A feature's word, as often as its value says, and at least once."""
    return " ".join(
        f"w{feature}" for feature, value in zip(ids, values) for _ in range(max(1, round(value)))
    )


def write(train: sparse_text.Points, test: sparse_text.Points, folder: pathlib.Path) -> None:
    """Training points with labels (words.txt), test points (queries.txt), words (features.txt)."""
    with open(folder / "words.txt", "w", encoding="ascii") as file:
        for labels, ids, values in zip(train.label_ids, train.feature_ids, train.values):
            file.write("".join(f"{LABEL}{label} " for label in labels) + words(ids, values) + "\n")
    with open(folder / "queries.txt", "w", encoding="ascii") as file:
        file.writelines(
            words(ids, values) + "\n" for ids, values in zip(test.feature_ids, test.values)
        )
    with open(folder / "features.txt", "w", encoding="ascii") as file:
        file.writelines(f"w{feature}\n" for feature in range(train.features))
