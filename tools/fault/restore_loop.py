"""Restores clusters from checkpoints of running tracers, and compares what their shards show.

Three shards, a coordinator, and three tracers (tests/tracer: each step adds 1 to rows of all
shards) with one, two and four steps in flight. A round takes one to three cluster checkpoints,
during which shards, tracers or the coordinator may be killed or paused; then the cluster is
restored, by a command or because a shard without a log was killed. Every shard must show just the
steps of each tracer that the manifest says, before and after the tracers of then have noticed; then
new ones go on from there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import random
import signal
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import processes
import shard_client
import tracer_cuts
from fault_cluster import LOSSLESS_MODES, FaultCluster, Member, kept
from grpc_client import CallFailed, Connection, ConnectionLost
from kill_schedule import COORDINATOR, KILL, PAUSE, SHARD, TRAINER
from tracer_cuts import Cut, Life
from tracer_process import ROLLED_BACK_EXIT, TracerProcess

SHARDS = 3
IN_FLIGHT = (1, 2, 4)
# As TracerModel() says.
TRACED = shard_client.table_spec("count", 32, 4, num_slots=16)
# Rows that nobody changes, so that checkpoints can be built on earlier ones.
IDLE = shard_client.model_spec("idle", shard_client.table_spec("rows", 2000, 24, init="uniform"))
# Every third cluster has a command log; another one begins after so many restores: with other
# ports, and the counts begin at 0.
MODES = ("checkpoint", "log", "checkpoint")
RESTORES_OF_A_CLUSTER = 10
_PROGRESS_STEPS = 10
_RETRY_SECONDS = 0.05
# What tracers are given for their steps; and how long after that they have been evicted, and the
# checkpoint is probably not committed.
_BARRIER_SECONDS = 1
_EVICTED_SECONDS = (0.1, 0.6)
_STEPS_SECONDS = (0.02, 0.3)  # before a checkpoint or a restore
# So long after the call that takes a checkpoint begins (before it: the victim is down when it
# begins). Trainers are held in the first milliseconds; then parts are written.
_LEAD_SECONDS = (-0.01, 0.05)
# Some pauses are shorter than the time that tracers are given for their steps, some longer.
_AWAY_SECONDS = {KILL: (0.0, 0.3), PAUSE: (0.1, 1.6)}
# How often each befalls somebody, and how many do at one checkpoint. Two at once are where one of
# them was to clean up after the other.
_DEEDS = {(TRAINER, KILL): 3, (TRAINER, PAUSE): 3, (SHARD, KILL): 2, (SHARD, PAUSE): 1,
          (COORDINATOR, KILL): 2, (COORDINATOR, PAUSE): 1}
_STRIKES: dict[int | str, int] = {0: 30, 1: 35, 2: 15, "torn": 20}
_MEMBERS = {SHARD: SHARDS, TRAINER: len(IN_FLIGHT), COORDINATOR: 1}
Rows = dict[str, list[list[float]]]  # {tracer: [all numbers of its rows on a shard] by shard}


@dataclasses.dataclass(frozen=True)
class Strike:
    """`deed` befalls a victim (its number among its kind) `lead` seconds into a checkpoint; it goes
    on `away` seconds later."""

    kind: str
    deed: str
    victim: int
    lead: float
    away: float


def strikes(source: random.Random) -> Iterator[Strike]:
    """What befalls the cluster during one checkpoint."""
    many = source.choices(list(_STRIKES), list(_STRIKES.values()))[0]
    if isinstance(many, int):
        deeds = source.sample(list(_DEEDS), many, counts=list(_DEEDS.values()))
        # Nobody is to be killed again before he is back.
        for kind, deed in dict.fromkeys(deeds):
            yield Strike(kind, deed, source.randrange(_MEMBERS[kind]),
                         source.uniform(*_LEAD_SECONDS), source.uniform(*_AWAY_SECONDS[deed]))
        return
    # A tracer dies while a shard does not hear it: its last steps are on the other shards only.
    # Half of the time the coordinator dies when it has evicted the tracer.
    lead = source.uniform(-0.03, 0.0)
    yield Strike(SHARD, PAUSE, source.randrange(SHARDS), lead, source.uniform(0.05, 0.3))
    yield Strike(TRAINER, KILL, source.randrange(len(IN_FLIGHT)),
                 lead + source.uniform(0.005, 0.03), 0.0)
    if source.random() < 0.5:
        yield Strike(COORDINATOR, KILL, 0, _BARRIER_SECONDS + source.uniform(*_EVICTED_SECONDS),
                     0.0)


class RestoreLoop(contextlib.ExitStack):
    """One cluster and its rounds: start(), then play() for each."""

    def __init__(self, mode: str, directory: pathlib.Path,
                 say: Callable[[str], None] = lambda line: None) -> None:
        super().__init__()
        self._mode, self._say, self._directory = mode, say, directory
        self.cluster = self.enter_context(FaultCluster(
            directory, SHARDS, mode, server_flags=("--disk-reserve", "0"), coordinator_flags=(
                "--checkpoint-interval", "off", "--barrier-timeout",
                f"{_BARRIER_SECONDS}s")))
        self.tracers = [
            TracerProcess(f"tracer-{number}", self.cluster.coordinator_address, in_flight,
                          directory) for number, in_flight in enumerate(IN_FLIGHT)]
        for tracer in self.tracers:
            self.callback(tracer.kill)
        self._idle_digests: list[Any] = []
        self._cuts: dict[int, Cut] = {}  # {checkpoint_id: Cut}
        self._listed: frozenset[str] = frozenset()
        self._down: set[Member] = set()  # those that were killed and have not begun again
        self._restore_count = self._commands = 0
        self.restores = self.mismatches = self.checkpoints = 0
        self.violations: list[str] = []

    def start(self) -> None:
        self.cluster.start()
        self.cluster.register_model(IDLE)
        self._idle_digests = self._digests()
        self._begin_tracers()
        self._take()

    def _begin_tracers(self, expected: dict[str, tuple[int, ...]] | None = None) -> None:
        """New lives of all, which must find the counts that are there, and get on."""
        for tracer in self.tracers:
            tracer.kill()
            self._start(tracer)
        for tracer in self.tracers:
            life = tracer.begun()
            if expected and life.counts != expected[tracer.name]:
                self._broken(f"{tracer.name} begins with {life.counts}, and the shards showed "
                             f"{expected[tracer.name]}")
        processes.wait_until(
            lambda: all(tracer.finished() >= _PROGRESS_STEPS for tracer in self.tracers),
            lambda: "steps of all tracers", alive=[tracer.process for tracer in self.tracers])

    def _broken(self, what: str) -> None:
        self.violations.append(f"{self._mode}: {what}")

    # --- checkpoints -----------------------------------------------------------------------------

    def _take(self, struck: Sequence[Strike] = ()) -> bool:
        """One committed checkpoint more; false when the cluster was restored instead."""
        until = time.monotonic() + processes.PATIENCE_SECONDS
        while True:
            lives = {tracer.name: tracer.life for tracer in self.tracers if tracer.life}
            finished = {tracer.name: tracer.finished() for tracer in self.tracers}
            refusal = self._call_with(struck)
            taken = self._note_cuts(lives, finished)
            if self._mode not in LOSSLESS_MODES and any(
                    (strike.kind, strike.deed) == (SHARD, KILL) for strike in struck):
                self._wait_until_restored()
                return False
            if taken:
                return True
            if time.monotonic() > until:
                raise AssertionError(f"no checkpoint can be taken: {refusal}")
            struck = ()
            time.sleep(_RETRY_SECONDS)

    def _call_with(self, struck: Sequence[Strike]) -> str:
        """Takes a checkpoint while the strikes befall the cluster: what the caller was told."""
        refusal = ""

        def call() -> None:
            nonlocal refusal
            try:
                with Connection(self.cluster.coordinator_address) as connection:
                    shard_client.create_cluster_checkpoint(connection)
            except (ConnectionLost, CallFailed) as error:
                refusal = str(error)

        early = max([0.0, *(-strike.lead for strike in struck)])
        caller = threading.Timer(early, call)
        began = time.monotonic() + early
        caller.start()
        # (when, number, strike or what lets its victim go on)
        due: list[tuple[float, int, Any]] = [
            (began + strike.lead, number, strike) for number, strike in enumerate(struck)]
        while due:
            due.sort(key=lambda entry: entry[:2])
            when, number, what = due.pop(0)
            time.sleep(max(0.0, when - time.monotonic()))
            if isinstance(what, Strike):
                due.append((time.monotonic() + what.away, number, self._strike(what)))
            else:
                what()
        caller.join()
        return refusal

    def _strike(self, strike: Strike) -> Callable[[], object]:
        """What has to be done for the victim to go on."""
        members: dict[str, Sequence[Member]] = {
            SHARD: self.cluster.shards, TRAINER: self.tracers,
            COORDINATOR: [self.cluster.coordinator]}
        member = members[strike.kind][strike.victim]
        if strike.deed == KILL:
            self._kill(member)
            # A killed tracer is replaced after the restore, when nothing of it is under way.
            return (lambda: None) if strike.kind == TRAINER else lambda: self._start(member)
        if member in self._down or not member.running():
            return lambda: None
        # It may be killed while it is paused, and another process be there.
        paused = member.process
        paused.send(signal.SIGSTOP)
        return lambda: paused.send(signal.SIGCONT) if (
            member not in self._down and member.process is paused and paused.running()) else None

    def _kill(self, member: Member) -> None:
        member.kill()
        self._down.add(member)

    def _start(self, member: Member) -> None:
        self._down.discard(member)
        member.start()

    def _note_cuts(self, lives: dict[str, Life], finished: dict[str, int]) -> bool:
        """Whether there are checkpoints that were not there before; also when nobody was told."""
        manifests = tracer_cuts.read_manifests(self.cluster.directory / "coordinator-data")
        new = sorted(manifests.keys() - self._cuts.keys())
        for checkpoint_id in new:
            self._listed |= manifests[checkpoint_id].evicted
            self._cuts[checkpoint_id] = Cut(manifests[checkpoint_id], lives, finished, self._listed)
        self.checkpoints += len(new)
        self._cuts = {number: cut for number, cut in self._cuts.items() if number in manifests}
        return bool(new)

    # --- restores --------------------------------------------------------------------------------

    def play(self, source: random.Random) -> None:
        """Steps, one to three checkpoints with steps between, and a restore."""
        checkpoints = source.choice((1, 1, 1, 2, 2, 3))
        struck = source.randrange(checkpoints)
        for number in range(checkpoints):
            time.sleep(source.uniform(*_STEPS_SECONDS))
            if not self._take(list(strikes(source)) if number == struck else ()):
                # It has restored itself: a shard was killed during the checkpoint.
                self._judge(max(self._cuts))
                return
        time.sleep(source.uniform(*_STEPS_SECONDS))
        newest = sorted(self._cuts)[::-1]
        crashed = source.choice((None, source.randrange(SHARDS)))
        if crashed is not None and self._mode not in LOSSLESS_MODES:
            self._crash(crashed)
            self._wait_until_restored()
            self._judge(newest[0])
        else:
            self.restore_and_judge(newest[min(source.choice((0, 0, 0, 1, 2)), len(newest) - 1)],
                                   crashed)

    def restore_and_judge(self, checkpoint_id: int, crashed: int | None = None) -> None:
        """By a command; afterwards a shard crashes that has a log."""
        self._restore(checkpoint_id)
        self._judge(checkpoint_id, crashed)

    def _crash(self, shard: int) -> None:
        self._kill(self.cluster.shards[shard])
        self._start(self.cluster.shards[shard])

    def _restore(self, checkpoint_id: int) -> None:
        """A shard that has only just come back may not be known yet: asked again."""
        last: list[processes.Finished] = []

        def restored() -> bool:
            self._commands += 1
            command = Member(f"restore-{self._commands}", "dslide", [
                "checkpoint", "restore", checkpoint_id, "--yes", "-o", "json",
                "--cluster", self.cluster.coordinator_address], self._directory)
            command.start()
            last[:] = [command.process.finish()]
            command.kill()
            return last[0].code == 0

        processes.wait_until(restored, lambda: str(last[0]))
        told = last[0].json()["checkpoint_id"]
        if told != checkpoint_id:
            self._broken(f"a restore of checkpoint {checkpoint_id} says that it was one of {told}")
        self._wait_until_restored()

    def _wait_until_restored(self) -> None:
        """Until clients get a map of another restore_count."""

        def counted() -> int | None:
            count = self.cluster.restore_count()
            return count if count is not None and count > self._restore_count else None

        self._restore_count = processes.wait_until(counted, lambda: "the cluster was restored")

    # --- judgement -------------------------------------------------------------------------------

    def _judge(self, checkpoint_id: int, crashed: int | None = None) -> None:
        """What the shards show now, while tracers of before still try, and when they are gone."""
        cut = self._cuts[checkpoint_id]
        first = self._read()
        sent = self._end_tracers(cut)
        if crashed is not None:
            # What was restored must be in the shard's log, too.
            self._crash(crashed)
            self.cluster.wait_for_model(IDLE.name)
        rows = self._read()
        verdicts = [tracer_cuts.judge(cut, name, rows[name], sent[name]) for name in rows]
        for verdict in verdicts:
            if rows[verdict.tracer] != first[verdict.tracer]:
                verdict.problems.append(f"rows of {verdict.tracer} changed after the restore")
            self.mismatches += bool(verdict.problems)
            for problem in verdict.problems:
                self._broken(problem)
        if self._digests() != self._idle_digests:
            self._broken(f"checkpoint {checkpoint_id}: rows that nobody has changed are other ones")
        self.restores += 1
        self._say(f"restore {self.restores} ({self._mode}): checkpoint {checkpoint_id}, "
                  f"{[verdict.counts for verdict in verdicts]}")
        self._begin_tracers({verdict.tracer: verdict.counts for verdict in verdicts})

    def _of_shards(self, read: Callable[[Connection, int], Any]) -> list[Any]:
        """[read(connection, shard)] of all."""
        found = []
        for shard in range(SHARDS):
            with Connection(self.cluster.direct_address(shard)) as connection:
                found.append(read(connection, shard))
        return found

    def _read(self) -> Rows:
        def numbers(connection: Connection, shard: int, model: str) -> list[float]:
            weights, _ = shard_client.gather_bytes(
                connection, model, TRACED.name, shard_client.rows_of_shard(TRACED, shard, SHARDS))
            return list(struct.unpack(f"<{len(weights) // 4}f", weights))

        return {tracer.name: self._of_shards(lambda connection, shard: numbers(
            connection, shard, tracer.name)) for tracer in self.tracers}

    def _digests(self) -> list[Any]:
        """[{table: its state}] of the model that nobody changes, by shard."""
        return self._of_shards(lambda connection, _: shard_client.describe_model(connection,
                                                                                 IDLE.name))

    def _end_tracers(self, cut: Cut) -> dict[str, int | None]:
        """Waits until those that were not killed have noticed: {tracer: steps that its life in the
        cut has sent}, None where nobody knows."""
        sent: dict[str, int | None] = {}
        for tracer in self.tracers:
            sent[tracer.name] = None
            if tracer in self._down:
                continue
            finished = tracer.process.finish()
            if finished.code != ROLLED_BACK_EXIT:
                self._broken(f"{tracer.name} was to notice that its cluster was restored: "
                             f"{finished}")
            if tracer.life == cut.lives[tracer.name]:
                sent[tracer.name] = tracer.sent()
        return sent


def run(seed: object, restores: int, say: Callable[[str], None] = lambda line: None) -> Any:
    """{restores, mismatches, violations, ...} over as many clusters as that takes."""
    total = {"restores": 0, "mismatches": 0, "checkpoints": 0}
    modes, violations = dict.fromkeys(MODES, 0), list[str]()
    # At least two clusters, of two modes.
    each, left = min(RESTORES_OF_A_CLUSTER, -(-restores // 2)), restores
    for number in range(-(-restores // each)):
        mode, source = MODES[number % len(MODES)], random.Random(f"{seed}/{number}/restores")
        with kept("restores", violations) as directory, RestoreLoop(mode, directory, say) as loop:
            try:
                loop.start()
                for _ in range(min(each, left)):
                    loop.play(source)
            finally:
                violations += loop.violations
                modes[mode] += loop.restores
                for name in total:
                    total[name] += getattr(loop, name)
        left -= each
    return total | {"modes": modes, "violations": violations}
