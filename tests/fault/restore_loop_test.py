"""The restore loop: what it calls a mismatch, and a few restores of real clusters."""

from __future__ import annotations

import json
import pathlib
import random
from collections.abc import Sequence
from typing import Any

import pytest
import restore_loop
import shard_client
import tracer_process
from grpc_client import Connection
from kill_schedule import COORDINATOR, KILL, PAUSE, SHARD, TRAINER
from tracer_cuts import Cut, Life, Manifest, judge, read_manifests

LIFE = Life("tracer-0", "aa" * 16, 2, (100, 100, 101))
STEP = 7


def cut(steps: Any = None, evicted: Sequence[str] = (), finished: Any = 5,
        listed: Sequence[str] = ()) -> Cut:
    """A checkpoint with STEP steps of LIFE in it."""
    steps = {LIFE.client: STEP} if steps is None else steps
    manifest = Manifest(3, steps, frozenset(evicted))
    return Cut(manifest, {LIFE.tracer: LIFE}, {LIFE.tracer: finished},
               frozenset(listed) | manifest.evicted)


def rows(*steps: Any) -> list[list[float]]:
    """What shards show that have so many steps of LIFE."""
    return [[float(start + count)] * 8 for start, count in zip(LIFE.counts, steps)]


def spoilt() -> list[list[float]]:
    """One number of shard 1 is another."""
    shown = rows(STEP, STEP, STEP)
    shown[1][5] += 1
    return shown


GONE = cut(steps={}, evicted=[LIFE.client], finished=0)


@pytest.mark.parametrize(("of_cut", "shown", "sent", "problem"), [
    (cut(), rows(STEP, STEP, STEP), STEP, ""),
    (cut(), rows(STEP, STEP, STEP + 1), None, "the manifest says 7"),
    (cut(), rows(STEP, STEP - 1, STEP), None, "the manifest says 7"),
    (cut(), rows(STEP + 1, STEP + 1, STEP + 1), None, "the manifest says 7"),
    # Also of a client that another one was evicted beside.
    (cut(evicted=["bb" * 16]), rows(STEP, STEP, STEP + 1), None, "the manifest says 7"),
    (cut(), spoilt(), None, "rows of shard 1 differ"),
    (cut(), rows(STEP + 0.5, STEP + 0.5, STEP + 0.5), None, "rows of shard 0"),
    (cut(finished=8), rows(STEP, STEP, STEP), None, "8 were confirmed"),
    (cut(), rows(STEP, STEP, STEP), 6, "it sent 6"),
    (GONE, rows(-1, 0, 0), None, "it sent"),
    # Only clients that were evicted and are listed may differ, by what they had in flight.
    (GONE, rows(STEP, STEP, STEP + 2), None, ""),
    (GONE, rows(STEP, STEP, STEP + 3), None, "in flight"),
    (cut(steps={}, listed=[LIFE.client]), rows(STEP, STEP, STEP + 1), None, ""),
    (cut(steps={}), rows(STEP, STEP, STEP + 1), None, "no manifest lists it"),
])
def test_what_is_a_mismatch(of_cut: Cut, shown: Any, sent: int | None, problem: str) -> None:
    said = " ".join(judge(of_cut, LIFE.tracer, shown, sent).problems)
    assert problem in said if problem else not said, said


def test_everything_befalls_a_cluster_and_nobody_is_killed_who_is_down() -> None:
    source = random.Random(1)
    struck = [[(strike.kind, strike.deed) for strike in restore_loop.strikes(source)]
              for _ in range(300)]
    assert {deed for deeds in struck for deed in deeds} == {
        (kind, deed) for kind in (SHARD, TRAINER, COORDINATOR) for deed in (KILL, PAUSE)}
    assert all(len(deeds) == len(set(deeds)) for deeds in struck)


def test_what_counts_of_a_manifest_is_read(tmp_path: pathlib.Path) -> None:
    text = {"checkpoint_id": 5, "steps": [{"client": "aa", "step": 9}], "evicted": ["bb"]}
    directory = tmp_path / "checkpoints"
    directory.mkdir()
    (directory / "MANIFEST-00005").write_text(json.dumps(text) + "\ncrc32c 1234\n")
    (directory / "MANIFEST-00006.tmp").write_text("{")
    assert read_manifests(tmp_path) == {5: Manifest(5, {"aa": 9}, frozenset(["bb"]))}


@pytest.fixture
def tracers(bin_dir: pathlib.Path) -> None:
    if not (bin_dir / tracer_process.PROGRAM).exists():
        pytest.skip(f"{tracer_process.PROGRAM} was not built")


@pytest.mark.usefixtures("tracers")
def test_restored_clusters_show_what_the_manifests_say() -> None:
    result = restore_loop.run(3, 4)
    assert result["violations"] == [], result
    assert (result["restores"], result["mismatches"]) == (4, 0)
    assert result["modes"] == {"checkpoint": 2, "log": 2}
    assert result["checkpoints"] >= 6


@pytest.mark.usefixtures("tracers")
def test_a_tracer_that_is_told_to_stop_finishes_its_steps(tmp_path: pathlib.Path) -> None:
    with restore_loop.RestoreLoop("checkpoint", tmp_path) as loop:
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


class TamperingLoop(restore_loop.RestoreLoop):
    """Adds 1 to a tracer's rows of one shard after a restore: a mismatch that must be found."""

    TAMPERED = 1

    def _restore(self, checkpoint_id: int) -> None:
        super()._restore(checkpoint_id)
        client, model = b"tampering-client", self.tracers[0].name
        with Connection(self.cluster.direct_address(self.TAMPERED)) as connection:
            table = restore_loop.TRACED
            envelope = shard_client.envelope_of("tampering", client, 1, 1, shard_client.hello(
                connection, "tampering", client, 0).generation, model)
            rows = shard_client.rows_of_shard(table, self.TAMPERED, restore_loop.SHARDS)
            shard_client.scatter_add(connection, envelope, table,
                                     {row: [1.0] * table.dim for row in rows}, biases=True)


@pytest.mark.usefixtures("tracers")
def test_a_restore_that_gives_one_shard_a_step_too_many_is_found(tmp_path: pathlib.Path) -> None:
    with TamperingLoop("checkpoint", tmp_path) as loop:
        loop.start()
        loop.restore_and_judge(1)
    assert loop.mismatches == 1
    assert len(loop.violations) == 1, loop.violations
    assert "tracer-0" in loop.violations[0]
    assert "the manifest says" in loop.violations[0]
