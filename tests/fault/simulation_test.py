"""The simulator's runner: portions, and a run of the program itself."""

from __future__ import annotations

import pathlib

import pytest
import simulation


def test_a_program_that_dies_is_no_result(tmp_path: pathlib.Path) -> None:
    program = tmp_path / simulation.PROGRAM
    program.write_text("#!/bin/sh\necho broken >&2; exit 3\n", encoding="ascii")
    program.chmod(0o755)
    with pytest.raises(RuntimeError, match="ended with 3: broken"):
        simulation.run(tmp_path, 1, 10, at_once=1)


def test_the_program_reports_what_it_did(bin_dir: pathlib.Path) -> None:
    if not (bin_dir / simulation.PROGRAM).exists():
        pytest.skip("the simulator was not built")
    result = simulation.run(bin_dir, first_seed=1, seeds=40, at_once=2)
    assert (result["seeds"], result["repeated"]) == (40, 4)
    assert (result["violations"], result["trace_hash_mismatches"]) == (0, 0)
    assert sum(result["modes"].values()) == 40
    assert result["faults"]["shard_kill"] > 0
