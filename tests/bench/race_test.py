"""The benchmark of a cluster: what it reads from specs, and what it makes of a race.

Starts nothing; bench.smoke runs the benchmark, with PyTorch where it is installed.
"""

import json
import pathlib
from typing import Any
from unittest import mock

import cluster_benchmark
import data_sets
import dense_baseline
import pytest
import race
import tables
from data_parallel import Settings

ROOT = pathlib.Path(__file__).resolve().parents[2]
OPTIONS = race.Options(
    bin_dir=pathlib.Path("bin"), python=pathlib.Path("python"), data="quick", steps=300,
    evaluate_every=100, limit_seconds=60, min_repeats=1, max_repeats=1,
    dense=dense_baseline.Sizes(batch=256, hidden=8, steps=1, all_reduces=1))
DATA = data_sets.DataSet("quick", pathlib.Path("train"), pathlib.Path("test"))


@pytest.mark.parametrize(("target", "seconds"), [(0.3, 2.0), (0.31, 4.0), (0.5, None)])
def test_the_first_evaluation_that_is_not_below_counts(target: float, seconds: Any) -> None:
    curve = [[1.0, 0.1], [2.0, 0.3], [3.0, 0.25], [4.0, 0.4]]
    assert race.seconds_to(curve, target) == seconds
    assert race.best(curve) == 0.4


@pytest.mark.parametrize(
    ("target", "seconds_a_step", "curve"),
    [
        # Trainings get longer until one is there; they end at the steps and at the limit.
        (0.15, 0.1, [[10, 0.1], [20, 0.2]]),
        (0.9, 0.1, [[10, 0.1], [20, 0.2], [30, 0.3]]),
        (0.9, 0.4, [[40, 0.1], [80, 0.2]]),
    ])
def test_trainings_get_longer(target: float, seconds_a_step: float, curve: Any,
                              monkeypatch: pytest.MonkeyPatch) -> None:
    def trained(_: Any, data: Any, flags: list[Any]) -> Any:
        """Learns a thousandth of P@1 with each step."""
        steps = flags[flags.index("--steps") + 1]
        return [steps * seconds_a_step, steps / 1000], {"samples_per_second": 10.0}

    monkeypatch.setattr(race.Race, "_trained", trained)
    assert race.Race(OPTIONS, None)._hashed(DATA, target)[0] == curve
    assert list(race.lengths(10, 160)) == [10, 20, 30, 40, 60, 80, 120, 160]


def test_the_table_says_when_a_training_ended_that_is_not_there() -> None:
    figures = {"samples_per_second": 10.0, "bytes_per_sample": 14.0}
    sides = [race.side("fast", "1gbit", [[1.0, 0.2], [2.5, 0.4]], figures),
             race.side("slow", "1gbit", [[300.0, 0.2], [650.0, 0.3]], figures)]
    text = " ".join(tables.race({
        "data": "quick", "points": 600, "labels": 1500, "hidden": 8, "steps": 300,
        "limit_seconds": 600, "target_p_at_1": 0.38, "target_share": race.TARGET_SHARE,
        "sides": race.judged(sides, 0.38)}).split())
    assert "fast, 1 Gbit/s | 2.50 | 0.400" in text
    assert "slow, 1 Gbit/s | > 650 | 0.300" in text
    assert "95 % of the best" in text


@pytest.mark.parametrize(("path", "hidden", "scale", "dropout"), [
    (race.MODEL, 128, 128**-0.5, 0.5), (ROOT / "docs/models/wide-670k.json", 128, 0.15, 0.0)])
def test_both_networks_of_the_race_have_one_spec(path: pathlib.Path, hidden: int, scale: float,
                                                 dropout: float) -> None:
    settings = Settings.of_spec(json.loads(path.read_text(encoding="utf-8")), pathlib.Path("train"),
                                test="", steps=3, evaluate_every=0, limit_seconds=0)
    assert (settings.hidden, settings.hidden_dropout) == (hidden, dropout)
    assert settings.head_scale == pytest.approx(scale)


@pytest.mark.parametrize(("no_torch", "remedy"), [(False, "--with-torch"), (True, "--no-torch")])
def test_without_pytorch_the_remedy_is_said(
        no_torch: bool, remedy: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("DSLIDE_CACHE_DIR", str(tmp_path))
    assert cluster_benchmark.torch_python(mock.Mock(with_torch=False, no_torch=no_torch)) is None
    said = capsys.readouterr().err
    assert said.startswith("skipped: PyTorch") and remedy in said
