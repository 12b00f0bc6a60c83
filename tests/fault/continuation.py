"""A training in portions of some steps, whose result depends on nothing but the steps."""

from __future__ import annotations

import json
import pathlib

from fault_cluster import Member
from processes import Finished

_STEPS = 12
# Small, with hash tables that are built anew in each portion.
_SPEC = {
    "name": "continued",
    "tables": [
        {"name": "input", "role": "embedding", "dim": 16, "bias_row": True},
        {"name": "labels", "role": "head", "dim": 16,
         "head": {"max_active": 60, "tail_rows": 40,
                  "hash": {"codes_per_table": 4, "num_tables": 12, "rebuild_every_steps": 5}}},
    ],
    "training": {"batch_size": 32, "chunk_samples": 128, "max_epochs": 1000000,
                 "validation_fraction": 0.0},
}


class Training:
    """One job of a cluster, by one trainer at a time."""

    MODEL = str(_SPEC["name"])

    def __init__(self, directory: pathlib.Path, coordinator: str) -> None:
        self._directory, self._coordinator = directory, coordinator
        self._spec, self._data = directory / "continued.json", directory / "continued.txt"
        self._commands = 0
        self._spec.write_text(json.dumps(_SPEC), encoding="utf-8")
        self._dslide("data", "gen", "--output", self._data, "--points", 1000, "--features", 300,
                     "--labels", 400)

    def go_on(self) -> None:
        """Some steps more."""
        self._dslide("train", "-q", "--cluster", self._coordinator, "--job", "continued",
                     "--data", self._data, "--model", self._spec, "--steps", _STEPS,
                     "--threads", 1)

    def predictions(self) -> str:
        """What hashing finds for the points."""
        return self._dslide("predict", "--cluster", self._coordinator, "--name", self.MODEL,
                            "--data", self._data, "--hashed", "-k", 3, "-o", "json",
                            "--threads", 1).stdout

    def _dslide(self, *arguments: object) -> Finished:
        self._commands += 1
        member = Member(f"continuation-{self._commands}", "dslide", arguments, self._directory,
                        {"OMP_WAIT_POLICY": "passive"})
        member.start()
        try:
            finished = member.process.finish()
        finally:
            member.kill()
        if finished.code != 0:
            raise AssertionError(f"a training was to go on: {finished}")
        return finished
