"""`dslide tune` over embedded and separate shards: what it finds, that it finds it again, what
stays behind.
"""

from __future__ import annotations

import json
import pathlib
import signal
from typing import Any

import pytest
from process_case import ProcessCase
from processes import Cluster, Process, assert_ended

OK, USAGE, INTERRUPTED = 0, 2, 130

POINTS = 1700
TRIALS = 4


def timeless(result: dict[str, Any]) -> dict[str, Any]:
    """A result without what differs from run to run."""
    kept = {name: value for name, value in result.items() if name != "seconds"}
    kept["winner"] = dict(kept["winner"], seconds=0)
    kept["measured"] = [dict(measured, seconds=0) for measured in kept["measured"]]
    return kept


class TuneTest(ProcessCase):
    def set_up(self) -> None:
        super().set_up()
        self.data = self.directory / "train.txt"
        self.test_data = self.directory / "test.txt"
        shape = ["--features", 500, "--labels", 150]
        self.make(self.data, "--points", POINTS, *shape)
        self.make(self.test_data, "--points", 200, "--first-point", POINTS, *shape)

    def make(self, path: pathlib.Path, *arguments: object) -> None:
        assert_ended(self.run_dslide("data", "gen", "--output", path, *arguments), OK)

    def tune(self, *arguments: object) -> Process:
        return self.start("dslide", "tune", "-o", "json", "--data", self.data, *arguments)

    def tuned(self, *arguments: object) -> Any:
        finished = self.tune(*arguments).finish()
        assert_ended(finished, OK)
        return finished.json()

    def assert_nothing_left(self, cluster: Cluster) -> None:
        """Neither models nor jobs."""
        status = self.run_dslide("status", "--cluster", cluster.address, "-o", "json")
        assert_ended(status, OK)
        assert status.json()["models"] == [], status
        assert status.json()["jobs"] == [], status

    def test_finds_the_same_best_model_each_time(self) -> None:
        spec = self.directory / "spec.json"
        search = ["--trials", TRIALS, "--seed", 3, "--eval", self.test_data]
        first = self.tuned(*search, "--shards", 2, "--spec-out", spec)

        rungs: dict[int, list[dict[str, Any]]] = {}
        for measured in first["measured"]:
            rungs.setdefault(measured["points"], []).append(measured)
        more, fewer = sorted(rungs, reverse=True)
        assert more + first["judged_points"] == POINTS
        assert fewer == (more - first["fitted_points"]) // 3 + first["fitted_points"]
        # All on few points, and on all of them the default and the best of the others.
        assert sorted(trial["trial"] for trial in rungs[fewer]) == list(range(TRIALS))
        best = next(trial for trial in rungs[fewer] if trial["trial"] != 0)
        assert sorted(trial["trial"] for trial in rungs[more]) == [0, best["trial"]]
        by_default = next(trial for trial in rungs[more] if trial["trial"] == 0)
        assert by_default["settings"] == {}
        assert first["winner"] == rungs[more][0]
        assert first["gain"] == pytest.approx(
            rungs[more][0]["quality"] - by_default["quality"], abs=1e-7)
        assert first["left"] == [0, 0]

        # The test data was looked at through the very model that the spec trains.
        trained = self.run_dslide("train", "-o", "json", "--data", self.data, "--eval",
                                  self.test_data, "--model", spec, "--shards", 2)
        assert_ended(trained, OK)
        for metric in ("p_at_1", "p_at_5", "psp_at_1"):
            assert trained.json()[metric] == first[metric]

        # Again, with other threads, on a cluster of processes that can keep the best epoch, too.
        cluster = self.start_cluster("--data-dir", self.directory / "rows", shards=2)
        again = self.tuned(*search, "--threads", 1, "--cluster", cluster.address)
        assert timeless(again) == timeless(first)
        self.assert_nothing_left(cluster)

    def test_what_a_training_notes_is_told_once(self) -> None:
        cluster = self.start_cluster(shards=2)
        finished = self.tune("--trials", 2, "--cluster", cluster.address).finish()
        assert_ended(finished, OK)
        assert finished.stderr.count("NOTE: the best epoch cannot be kept") == 1, finished

    def test_a_limit_of_time_ends_the_search_with_what_is_known(self) -> None:
        # None but the default's first training may begin.
        result = self.tuned("--minutes", 0.0001)
        assert [trial["trial"] for trial in result["measured"]] == [0]
        assert result["winner"]["settings"] == {}
        assert result["gain"] == 0
        assert result["left"] == [3, 2]
        assert result["p_at_1"] is None

    def test_an_interrupted_search_tells_what_is_known_and_leaves_nothing(self) -> None:
        cluster = self.start_cluster(shards=2)
        spec = self.directory / "spec.json"
        search = self.tune("--trials", 1000, "--cluster", cluster.address, "--spec-out", spec)
        search.wait_for_stderr(r"trial 1 on ")
        finished = search.stop(signal.SIGINT)
        assert_ended(finished, INTERRUPTED)
        result = finished.json()
        assert result["interrupted"]
        assert len(result["measured"]) >= 2
        assert result["left"][0] > 900
        assert "tables" in json.loads(spec.read_text())
        self.assert_nothing_left(cluster)

    def test_a_lost_cluster_ends_it_with_what_is_known(self) -> None:
        cluster = self.start_cluster(shards=2)
        search = self.tune("--trials", 1000, "--cluster", cluster.address, "--timeout", "2s")
        search.wait_for_stderr(r"trial 0 on ")
        cluster.process.kill()
        finished = search.finish()
        assert finished.code not in (OK, INTERRUPTED), finished
        assert finished.json()["measured"][-1]["trial"] == 0

    def test_groups_are_held_out_together(self) -> None:
        groups = self.directory / "groups.txt"
        groups.write_text("".join(f"{point % 50}\n" for point in range(POINTS)))
        result = self.tuned("--trials", 2, "--validation-group", groups)
        # Of 85 points that a twentieth allows, two groups of 34; of the rest likewise.
        assert (result["judged_points"], result["fitted_points"]) == (68, 68)

    def test_wrong_flags_are_refused(self) -> None:
        for arguments, words in (
                ([], "say how long to search: --minutes N"),
                (["--trials", 1], "must be at least 2"),
                (["--minutes", -1], "must be above 0"),
                (["--trials", 2, "--shards", 0], "--shards 0"),
        ):
            assert_ended(self.tune(*arguments).finish(), USAGE, words)
        other = self.directory / "other.txt"
        self.make(other, "--points", 100, "--features", 400, "--labels", 150)
        assert_ended(self.tune("--trials", 2, "--eval", other).finish(), USAGE,
                     "400 features")
