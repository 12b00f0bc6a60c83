"""The course of `dslide conformance` (docs/contribute/conformance.md), done with the package.

python course.py conformance-course/course.json
"""

from __future__ import annotations

import json
import pathlib
import sys
from collections.abc import Collection
from typing import Any

import numpy as np

import dslide
from dslide.first_rows import first_rows

EVERYTHING = ("gather", "scatter", "first_rows", "train", "top_k")


class Course:
    """Does the tasks of a course.json, in its order."""

    def __init__(self, path: pathlib.Path) -> None:
        self._folder = path.parent
        self._course = json.loads(path.read_text(encoding="utf-8"))

    def run(self, kinds: Collection[str] = EVERYTHING) -> None:
        """The tasks of some kinds."""
        with dslide.connect(self._course["coordinator"], job="course", timeout=20) as cluster:
            models = {spec["name"]: cluster.create_model(spec) for spec in self._course["models"]}
            for task in self._course["tasks"]:
                kind = task["do"]
                if kind not in kinds:
                    continue
                if kind == "train":
                    self._train(cluster, task)
                    continue
                rows = getattr(self, f"_{kind}")(models[task["model"]], task)
                if rows is None:
                    continue
                to = task["answers"]
                numbers = np.arange(len(rows)) + to["first_row"]
                models[to["model"]].scatter(to["table"], numbers, rows, mode="assign")

    @staticmethod
    def _gather(model: dslide.Model, task: dict[str, Any]) -> Any:
        return model.gather(task["table"], task["rows"])

    @staticmethod
    def _scatter(model: dslide.Model, task: dict[str, Any]) -> None:
        values = np.array(task["values"], np.float32)
        model.scatter(task["table"], task["rows"], values, mode=task["mode"])

    @staticmethod
    def _first_rows(model: dslide.Model, task: dict[str, Any]) -> Any:
        table = next(table for table in model.spec.tables if table.name == task["table"])
        return first_rows(table, model.spec.seed, task["rows"])

    @staticmethod
    def _top_k(model: dslide.Model, task: dict[str, Any]) -> Any:
        queries = np.array(task["queries"], np.float32)
        return model.top_k(task["table"], queries, k=task["k"]).ids.astype(np.float32)

    def _train(self, cluster: dslide.Client, task: dict[str, Any]) -> None:
        spec, points = str(self._folder / task["spec"]), str(self._folder / task["points"])
        with dslide.Trainer(cluster, spec, points, job=task["job"], progress=False) as trainer:
            trainer.train()


if __name__ == "__main__":
    Course(pathlib.Path(sys.argv[1])).run()
