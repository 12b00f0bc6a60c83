"""What the tests of whole trainings share: data, runs, and what their figures may differ by."""

from __future__ import annotations

import collections
import dataclasses
import math
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from process_case import ProcessCase
from processes import Cluster, assert_ended

SHARDS = 4
TRAINERS = 2
TRAFFIC_TOLERANCE = 0.05


@dataclasses.dataclass(frozen=True)
class DataSet:
    train: pathlib.Path
    test: pathlib.Path

    def flags(self) -> list[object]:
        return ["--data", self.train, "--eval", self.test]

    def test_points(self) -> int:
        with open(self.test, encoding="ascii") as lines:
            return int(lines.readline().split()[0])

    def most_frequent_precision(self) -> float:
        """P@1 on the test points of always answering the most frequent training label."""
        counts = collections.Counter(
            label for labels in _labels_of_points(self.train) for label in labels)
        best = counts.most_common(1)[0][0]
        hits = [best in labels for labels in _labels_of_points(self.test)]
        return sum(hits) / len(hits)


def _labels_of_points(path: pathlib.Path) -> Iterator[list[str]]:
    with open(path, encoding="ascii") as lines:
        next(lines)
        for line in lines:
            yield line.partition(" ")[0].split(",")


def generate(test: ProcessCase, points: int = 8000, features: int = 2000, labels: int = 3000,
             test_points: int = 4000) -> DataSet:
    """A generated task and later points of it, which are in no training part."""
    data = DataSet(test.directory / "train.txt", test.directory / "test.txt")
    shape = ["--features", features, "--labels", labels, "--seed", 7]
    for path, first, count in ((data.train, 0, points), (data.test, points, test_points)):
        made = test.run_dslide("data", "gen", "--output", path, "--points", count,
                               "--first-point", first, *shape)
        assert_ended(made, 0)
    return data


def write_words(directory: pathlib.Path, words: Sequence[str], points: Sequence[str],
                name: str = "train.txt") -> pathlib.Path:
    """Points of words: each is the name of a feature, and of a label."""
    for names in ("features.txt", "labels.txt"):
        (directory / names).write_text("\n".join(words) + "\n")
    path = directory / name
    path.write_text("\n".join([f"{len(points)} {len(words)} {len(words)}", *points]) + "\n")
    return path


def train_embedded(test: ProcessCase, data: DataSet, settings: Sequence[object],
                   within: float | None = None) -> dict[str, Any]:
    """The JSON result of a training inside one process, with as many shards as the cluster.

    `within`: as that of processes.Process.finish().
    """
    finished = test.run_dslide("train", "-q", "-o", "json", "--shards", SHARDS, *data.flags(),
                               *settings, within=within)
    assert_ended(finished, 0)
    result: dict[str, Any] = finished.json()
    return result


def train_on_cluster(test: ProcessCase, cluster: Cluster, data: DataSet,
                     settings: Sequence[object],
                     within: float | None = None) -> list[dict[str, Any]]:
    """The JSON results of trainers that are processes and share one job."""
    trainers = [
        test.start("dslide", "train", "-q", "-o", "json", "--cluster", cluster.address,
                   "--job", "shared", *data.flags(), *settings)
        for _ in range(TRAINERS)
    ]
    results = []
    for trainer in trainers:
        finished = trainer.finish(within)
        assert_ended(finished, 0)
        results.append(finished.json())
    return results


def assert_bytes_counted(results: Sequence[dict[str, Any]], counted: int) -> None:
    """What the trainers say that they have moved is what the kernel has counted."""
    reported = sum(result["bytes_sent"] + result["bytes_received"] for result in results)
    print(f"bytes: reported by the trainers {reported:,}, counted by the kernel {counted:,} "
          f"({reported / counted - 1:+.2%})", flush=True)
    # Less would be no load worth the name.
    assert reported > 50e6
    assert reported == pytest.approx(counted, abs=TRAFFIC_TOLERANCE * counted)


def precision_tolerance(precision: float, points: int) -> float:
    """How far apart the P@1 of two equally good models may be on so many test points.

    A point is a hit with probability p, so P@1 over n points has the variance p (1 - p) / n, and
    the difference of two models at most twice that (their hits go together, which lowers it).
    Four standard deviations: a false alarm in 16,000 runs.
    """
    return 4 * math.sqrt(2 * precision * (1 - precision) / points)
