"""`dslide train` and `dslide eval` report the accuracy that the model's own predictions have."""

from __future__ import annotations

import json
import math
import pathlib
from collections.abc import Sequence
from typing import Any

import pytest
import training
from process_case import ProcessCase
from processes import assert_ended

CUTOFFS = (1, 3, 5, 10)
METRICS = ("p", "ndcg", "recall", "psp", "psndcg")


def read_labels(path: pathlib.Path) -> tuple[list[set[int]], int]:
    """The labels of each point, and how many labels there are."""
    with open(path, encoding="ascii") as lines:
        count = int(next(lines).split()[2])
        return [{int(label) for label in line.partition(" ")[0].split(",") if label.strip()}
                for line in lines], count


def inverse_propensities(path: pathlib.Path, a: float = 0.55, b: float = 1.5) -> list[float]:
    points, count = read_labels(path)
    c = (math.log(len(points)) - 1) * (b + 1) ** a
    occurrences = [0] * count
    for labels in points:
        for label in labels:
            occurrences[label] += 1
    return [1 + c * math.exp(-a * math.log(n + b)) for n in occurrences]


def measure(ranked: Any, truth: Any, weights: Sequence[float], k: int) -> Any:
    """The metrics at k of rankings of points, all of which have labels."""

    def gains(ranking: Any, labels: Any, weight: Any) -> Any:
        """Of the first k: the sum of the hits, and the same discounted by rank, over the ideal."""
        hits = [weight[label] if label in labels else 0 for label in ranking[:k]]
        discounted = sum(hit / math.log2(rank + 2) for rank, hit in enumerate(hits))
        ideal = sum(1 / math.log2(rank + 2) for rank in range(min(k, len(labels))))
        return sum(hits), discounted / ideal

    ones = [1] * len(weights)
    plain = [gains(*point, ones) for point in zip(ranked, truth)]
    scored = [gains(*point, weights) for point in zip(ranked, truth)]
    best = [gains(sorted(labels, key=lambda label: -weights[label]), labels, weights)
            for labels in truth]
    n = len(truth)
    return {
        "p": sum(hits for hits, _ in plain) / (k * n),
        "ndcg": sum(ndcg for _, ndcg in plain) / n,
        "recall": sum(hits / len(labels) for (hits, _), labels in zip(plain, truth)) / n,
        "psp": sum(hits for hits, _ in scored) / sum(hits for hits, _ in best),
        "psndcg": sum(ndcg for _, ndcg in scored) / sum(ndcg for _, ndcg in best),
    }


class AccuracyTest(ProcessCase):
    def set_up(self) -> None:
        super().set_up()
        self.data = training.generate(self, points=3000, features=500, labels=300, test_points=400)
        self.model = self.directory / "model"
        finished = self.run_dslide("train", "-q", "-o", "json", *self.data.flags(), "--epochs", 5,
                                   "--learning-rate", 0.01, "--dim", 64, "--cutoffs", "10",
                                   "--model-dir", self.model)
        assert_ended(finished, 0)
        self.trained = finished.json()

    def evaluate(self, *arguments: object) -> Any:
        finished = self.run_dslide("eval", "-o", "json", "--model-dir", self.model,
                                   "--data", self.data.test, "--cutoffs", "5,10", *arguments)
        assert_ended(finished, 0)
        return finished.json(), finished.stderr

    def predictions(self) -> Any:
        finished = self.run_dslide("predict", "-o", "json", "--model-dir", self.model,
                                   "--data", self.data.test, "-k", max(CUTOFFS))
        assert_ended(finished, 0)
        return [[guess["label"] for guess in json.loads(line)["predictions"]]
                for line in finished.stdout.splitlines()]

    def test_the_figures_are_those_of_the_predictions(self) -> None:
        of_points, _ = read_labels(self.data.test)
        pairs = [(ranking, labels) for ranking, labels in zip(self.predictions(), of_points)
                 if labels]
        ranked, truth = zip(*pairs)
        weights = inverse_propensities(self.data.train)
        evaluated, said = self.evaluate()
        assert "PSP" not in said
        assert evaluated["p_at_1"] > 0.1
        for k in CUTOFFS:
            for metric, expected in measure(ranked, truth, weights, k).items():
                assert evaluated[f"{metric}_at_{k}"] == pytest.approx(expected, abs=1e-7)
                assert self.trained[f"{metric}_at_{k}"] == evaluated[f"{metric}_at_{k}"]

    def test_without_label_counts_the_scored_figures_are_left_out_and_it_says_why(self) -> None:
        complete, _ = self.evaluate()
        (self.model / "label_counts.txt").unlink()
        (self.model / "FILES").unlink()
        partial, said = self.evaluate()
        assert "--training-data FILE" in said
        again, said = self.evaluate("--training-data", self.data.train)
        assert "--training-data" not in said
        for k in CUTOFFS:
            for metric in METRICS:
                field = f"{metric}_at_{k}"
                assert again[field] == complete[field]
                assert partial[field] == (None if metric.startswith("ps") else complete[field])
