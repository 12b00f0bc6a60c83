"""Failpoints: all of them are in the programs, each has a way to it, and a short run hits some."""

from __future__ import annotations

from unittest import mock

import failpoint_loop
import failpoints
import processes
import pytest
from failpoints import (
    CHECKPOINT,
    FIRST_START,
    LOAD,
    REGISTRATION,
    RESTORE,
    STOP,
    STRIKES_OF_A_CLUSTER,
    Point,
    clusters_for,
    strikes_for,
)


class FailpointNamesTest:
    def setup_method(self) -> None:
        self.points = failpoints.points(processes.bin_dir())
        if not self.points:
            pytest.skip("the programs were built without failpoints")

    def test_the_programs_have_every_point_of_the_sources(self) -> None:
        # A source that is not listed with dslide_failpoints() would silently leave out its points.
        assert {point.name for point in self.points} == failpoints.of_sources()

    def test_names_begin_with_who_dies(self) -> None:
        for point in self.points:
            assert point.name.partition(".")[0] in ("files", point.program), point

    def test_each_kind_of_way_is_there(self) -> None:
        assert {FIRST_START, STOP, CHECKPOINT, RESTORE, REGISTRATION, LOAD} <= {
            point.way for point in self.points}
        assert {point.mode for point in self.points} == {"log", "checkpoint"}


class StrikesTest:
    POINTS = [Point("shard.log.synced", "shard", "log"), Point("shard.cut.made", "shard", "log"),
              Point("shard.rollback.kept", "shard", "log"),
              Point("shard.state.made", "shard", "log"),
              Point("shard.state.renamed", "shard", "log"),
              Point("shard.cut.made", "shard", "checkpoint")]

    def test_a_cluster_has_one_mode_and_first_starts_and_restores_are_apart(self) -> None:
        strikes = strikes_for(self.POINTS, 12, seed=3)
        clusters = list(clusters_for(strikes))
        assert sorted(map(str, strikes)) == sorted(
            str(strike) for part in clusters for strike in part)
        for part in clusters:
            assert len(part) <= STRIKES_OF_A_CLUSTER
            assert len({strike.point.mode for strike in part}) == 1
            ways = {strike.point.way for strike in part}
            assert not ({FIRST_START, RESTORE} & ways and len(part) > 1 and ways != {RESTORE})

class ShortRunTest:
    def run_at(self, *names: str, mode: str) -> None:
        points = [point for point in failpoints.points(processes.bin_dir())
                  if point.name in names and point.mode == mode]
        if not points:
            pytest.skip("the programs were built without failpoints")
        assert {point.name for point in points} == set(names)
        lines: list[str] = []
        result = failpoint_loop.run(points, seed=5, say=lines.append)
        assert result["violations"] == [], lines
        assert result["failpoints_hit"] == len(points), lines
        assert result["not_hit"] == []

    def test_a_shard_that_dies_around_its_sync_loses_nothing(self) -> None:
        self.run_at("shard.log.appended", "shard.log.synced", "shard.ack.sending", mode="log")

    def test_a_coordinator_that_dies_before_and_after_the_commit(self) -> None:
        self.run_at("coordinator.manifest.prepared", "coordinator.manifest.committed", mode="log")

    def test_a_point_that_is_never_reached_is_told(self) -> None:
        nowhere = Point("shard.log.nowhere", "shard", "log")
        with mock.patch.object(failpoint_loop, "REACH_SECONDS", 1):
            result = failpoint_loop.run([nowhere], seed=5)
        assert (result["failpoints"], result["failpoints_hit"]) == (1, 0)
        assert result["not_hit"] == [str(nowhere)]
        assert result["violations"] == []
