"""The programs run on every x86-64-v2 processor: whole trainings with the wide kernels disabled."""

from __future__ import annotations

from typing import Any

import pytest
import training
from process_case import ProcessCase
from processes import assert_ended


class InstructionSetTest(ProcessCase):
    SETTINGS = ["--epochs", 5, "--dim", 64, "--max-active", 100, "--learning-rate", 0.01,
                "--in-flight", 1, "--shards", 2]

    def train(self, data: training.DataSet, instruction_set: str | None) -> Any:
        environment = {} if instruction_set is None else {"DSLIDE_MAX_ISA": instruction_set}
        finished = self.start("dslide", "train", "-q", "-o", "json", *data.flags(), *self.SETTINGS,
                              environment=environment).finish()
        assert_ended(finished, 0)
        return finished.json()

    def test_every_instruction_set_learns_the_same(self) -> None:
        data = training.generate(self, points=4000, test_points=1000)
        widest = self.train(data, None)
        assert widest["p_at_1"] > 0.1
        for instruction_set in ("sse4", "avx2"):
            result = self.train(data, instruction_set)
            # The first step differs by rounding alone; later ones amplify it.
            assert result["first_loss"] == pytest.approx(widest["first_loss"], abs=1e-4)
            assert result["loss"] == pytest.approx(widest["loss"], abs=0.05)
            assert result["p_at_1"] == pytest.approx(
                widest["p_at_1"],
                abs=training.precision_tolerance(widest["p_at_1"], data.test_points()))

    def test_an_unknown_instruction_set_is_refused(self) -> None:
        done = self.start("dslide", "train", "--data", "x",
                          environment={"DSLIDE_MAX_ISA": "mmx"}).finish()
        assert done.code != 0
        assert "DSLIDE_MAX_ISA" in done.stderr
