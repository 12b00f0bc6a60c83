"""What the programs of the peers share; each runs inside the environment of its package.

usage: run_NAME.py train DATA MODEL SEED TREES    trains on DATA, keeps the model in MODEL
       run_NAME.py predict DATA MODEL K RANKED    a line for each test point: its best K labels

The last line of stdout is one JSON object: of `train` what it took from the data in memory to the
model on the disk, of `predict` the median time of one point.
"""

import functools
import json
import pathlib
import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence

import scipy.sparse

# Of a test point (its number), the k best labels.
Ranker = Callable[[int, int], Sequence[int]]


class Prepared:
    """A data set on disk: what prepare.py and word_files.py made of it."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.weighted_train = folder / "weighted.txt"  # sparse text
        self.words_train = folder / "words.txt"  # "__label__3 w7 w7 w9"
        self.words_test = folder / "queries.txt"  # "w7 w7 w9"

    @functools.cached_property
    def train_x(self) -> scipy.sparse.csr_matrix:
        """[train points, features] float32, rows of unit length."""
        return scipy.sparse.load_npz(self.folder / "train_x.npz")

    @functools.cached_property
    def train_y(self) -> scipy.sparse.csr_matrix:
        """[train points, labels] float32, 0 or 1."""
        return scipy.sparse.load_npz(self.folder / "train_y.npz")

    @functools.cached_property
    def test_x(self) -> scipy.sparse.csr_matrix:
        return scipy.sparse.load_npz(self.folder / "test_x.npz")


def _cpu_seconds() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def main(
    read: Sequence[str],
    train: Callable[[Prepared, pathlib.Path, int, int], None],
    load: Callable[[Prepared, pathlib.Path], Ranker],
) -> None:
    """`read` names what of Prepared has to be in memory before the training counts."""
    command, data, model, *rest = sys.argv[1:]
    prepared = Prepared(pathlib.Path(data))
    if command == "train":
        for name in read:
            getattr(prepared, name)
        begin, cpu = time.perf_counter(), _cpu_seconds()
        train(prepared, pathlib.Path(model), *map(int, rest))
        result = {"wall_seconds": time.perf_counter() - begin, "cpu_seconds": _cpu_seconds() - cpu}
    else:
        result = {
            "predict_p50_ms": _predict(
                prepared, load(prepared, pathlib.Path(model)), int(rest[0]), pathlib.Path(rest[1])
            )
        }
    print(json.dumps(result))


def _predict(prepared: Prepared, rank: Ranker, k: int, ranked: pathlib.Path) -> float:
    seconds = []
    with open(ranked, "w", encoding="ascii") as file:
        for point in range(prepared.test_x.shape[0]):
            begin = time.perf_counter()
            labels = rank(point, k)
            seconds.append(time.perf_counter() - begin)
            file.write(" ".join(map(str, labels)) + "\n")
    return 1e3 * statistics.median(seconds)
