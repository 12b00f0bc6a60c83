"""The restore loop: what it calls a mismatch, and a few restores of real clusters."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import grpc_client
import processes
import pytest
import restore_loop
import shard_client
import tracer_process
from kill_schedule import COORDINATOR, KILL, PAUSE, SHARD, TRAINER
from process_case import ProcessCase
from restore_plan import COMMAND, CRASH, Round, plan
from tracer_cuts import Cut, Life, Manifest, judge, read_manifests

LIFE = Life("tracer-0", "aa" * 16, 2, (100, 100, 101))
STEP = 7


def cut(steps: Any = None, evicted: Sequence[str] = (), finished: Any = 5,
        listed: Sequence[str] = ()) -> Cut:
    """A checkpoint with STEP steps of LIFE in it."""
    steps = {LIFE.client: STEP} if steps is None else steps
    manifest = Manifest(3, steps, frozenset(evicted), "full")
    return Cut(manifest, {LIFE.tracer: LIFE}, {LIFE.tracer: finished},
               frozenset(listed) | manifest.evicted)


def rows(*steps: Any) -> list[list[float]]:
    """What shards show that have so many steps of LIFE."""
    return [[float(start + count)] * 8 for start, count in zip(LIFE.counts, steps)]


class JudgementTest:
    def problems(self, of_cut: Any, shown: Any, sent: int | None = None) -> str:
        return " ".join(judge(of_cut, LIFE.tracer, shown, sent).problems)

    def test_the_steps_of_the_manifest_on_every_shard_are_right(self) -> None:
        verdict = judge(cut(), LIFE.tracer, rows(STEP, STEP, STEP), sent=STEP)
        assert (verdict.problems, verdict.partial) == ([], 0)
        assert verdict.counts == (107, 107, 108)

    def test_a_planted_mismatch_is_found(self) -> None:
        for shown in (rows(STEP, STEP, STEP + 1), rows(STEP, STEP - 1, STEP),
                      rows(STEP + 1, STEP + 1, STEP + 1), rows(STEP - 1, STEP - 1, STEP - 1)):
            assert "the manifest says 7" in self.problems(cut(), shown)
        # Also of a client that another one was given up beside.
        assert "the manifest says 7" in self.problems(
            cut(evicted=["bb" * 16]), rows(STEP, STEP, STEP + 1))

    def test_rows_of_one_shard_that_differ_are_found(self) -> None:
        shown = rows(STEP, STEP, STEP)
        shown[1][5] += 1
        assert "rows of shard 1 differ" in self.problems(cut(), shown)
        halves = rows(STEP + 0.5, STEP + 0.5, STEP + 0.5)
        assert "rows of shard 0" in self.problems(cut(), halves)

    def test_steps_that_were_confirmed_before_must_be_there(self) -> None:
        assert "8 were confirmed" in self.problems(cut(finished=8), rows(STEP, STEP, STEP))

    def test_no_more_is_there_than_was_sent(self) -> None:
        assert "it sent 6" in self.problems(cut(), rows(STEP, STEP, STEP), sent=6)
        of_cut = cut(steps={}, evicted=[LIFE.client], finished=0)
        assert "it sent" in self.problems(of_cut, rows(-1, 0, 0))

    def test_only_clients_that_were_given_up_and_are_listed_may_differ(self) -> None:
        shown = rows(STEP, STEP, STEP + 1)
        allowed = judge(cut(steps={}, evicted=[LIFE.client]), LIFE.tracer, shown)
        assert (allowed.problems, allowed.partial) == ([], 1)
        # By an earlier checkpoint, too; but not by none.
        assert self.problems(cut(steps={}, listed=[LIFE.client]), shown) == ""
        assert "no manifest lists it" in self.problems(cut(steps={}), shown)

    def test_they_differ_by_no_more_than_was_in_flight(self) -> None:
        of_cut = cut(steps={}, evicted=[LIFE.client])
        assert self.problems(of_cut, rows(STEP, STEP, STEP + 2)) == ""
        assert "in flight" in self.problems(of_cut, rows(STEP, STEP, STEP + 3))


class PlanTest:
    def test_everything_happens(self) -> None:
        rounds = plan(1, 300, 3, 3)
        strikes = [strike for one in rounds for at in one.strikes.values() for strike in at]
        assert {(strike.kind, strike.deed) for strike in strikes} == {
            (kind, deed) for kind in (SHARD, TRAINER, COORDINATOR) for deed in (KILL, PAUSE)}
        assert {one.way for one in rounds} == {COMMAND, CRASH}
        assert {one.back for one in rounds} == {0, 1, 2}
        assert {one.checkpoints for one in rounds} == {1, 2, 3}
        assert sum(bool(one.strikes) for one in rounds) > 150
        for one in rounds:
            assert max(one.strikes, default=0) < one.checkpoints

    def test_nobody_is_killed_who_is_down(self) -> None:
        for one in plan(2, 300, 3, 3):
            for strikes in one.strikes.values():
                deeds = [(strike.kind, strike.deed) for strike in strikes]
                assert len(deeds) == len(set(deeds))

class ManifestTest(ProcessCase):
    def test_what_counts_is_read(self) -> None:
        part = {"base_checkpoint_id": 0}
        text = {"checkpoint_id": 5, "steps": [{"client": "aa", "step": 9}], "evicted": ["bb"],
                "parts": [part, part | {"base_checkpoint_id": 4}]}
        directory = self.directory / "checkpoints"
        directory.mkdir()
        (directory / "MANIFEST-00005").write_text(json.dumps(text) + "\ncrc32c 1234\n",
                                                  encoding="utf-8")
        (directory / "MANIFEST-00006.tmp").write_text("{", encoding="utf-8")
        assert read_manifests(self.directory) == {
            5: Manifest(5, {"aa": 9}, frozenset(["bb"]), "mixed")}


class TamperingLoop(restore_loop.RestoreLoop):
    """Adds 1 to a tracer's rows of one shard after a restore: a mismatch that must be found."""

    TAMPERED = 1

    def _restore(self, checkpoint_id: int) -> None:
        super()._restore(checkpoint_id)
        client, model = b"tampering-client", self.tracers[0].name
        with grpc_client.Connection(self.cluster.direct_address(self.TAMPERED)) as connection:
            welcome = shard_client.hello(connection, model, client, 0)
            envelope = shard_client.envelope_of(model, client, welcome.next_sequence,
                                                welcome.next_sequence, welcome.generation, model)
            table = restore_loop.TRACED
            more = {row: [1.0] * table.dim
                    for row in shard_client.rows_of_shard(table, self.TAMPERED,
                                                          restore_loop.SHARDS)}
            shard_client.scatter_add(connection, envelope, table, more, biases=True)


class RestoreLoopTest(ProcessCase):
    def set_up(self) -> None:
        super().set_up()
        if not tracer_process.exists(processes.bin_dir()):
            pytest.skip(f"{tracer_process.PROGRAM} was not built")

    def test_restored_clusters_show_what_the_manifests_say(self) -> None:
        result = restore_loop.run(3, 4)
        assert result["violations"] == [], result
        assert (result["restores"], result["mismatches"]) == (4, 0)
        assert result["modes"] == {"checkpoint": 2, "log": 2}
        assert (result["continuations"], result["continuation_mismatches"]) == (2, 0)
        assert result["checkpoints"] >= 6

    def test_a_tracer_that_is_told_to_stop_finishes_its_steps(self) -> None:
        with restore_loop.RestoreLoop("1", "checkpoint", self.directory) as loop:
            loop.start()
            tracer = loop.tracers[2]
            assert tracer.process.stop().code == 0
            sent = tracer.sent()
            assert sent is not None and sent > 0
            first = tracer.process.wait_for_stdout("ended.*").group()
            assert f'"finished":{sent},"sent":{sent},' in first
            tracer.kill()
            tracer.start()
            assert tracer.begun().counts == (sent,) * restore_loop.SHARDS
        assert loop.violations == []

    def test_a_restore_that_gives_one_shard_a_step_too_many_is_found(self) -> None:
        with TamperingLoop("1", "checkpoint", self.directory) as loop:
            loop.start()
            loop.play(Round(steps=(0.1, 0.1), strikes={}, way=COMMAND, crashed=0, back=0))
        assert loop.counts["mismatches"] == 1
        assert len(loop.violations) == 1, loop.violations
        assert "tracer-0" in loop.violations[0]
        assert "the manifest says" in loop.violations[0]
