"""Takes clusters back to checkpoints of running tracers, and compares what their shards show.

Three shards, a coordinator, and three tracers (tests/tracer: each step adds 1 to rows of all
shards) with one, two and four steps in flight. A round takes one to three cluster checkpoints,
during which shards, tracers or the coordinator may be killed or paused; then the cluster is taken
back, by a command or because a shard without a log was killed. Every shard must show just the steps
of each tracer that the manifest says, before and after the tracers of then have given up; then new
ones go on from there. At the end of each cluster, a training goes on twice from one checkpoint:
without a stop, and restored. Both must end with equal bits.
"""

from __future__ import annotations

import collections
import contextlib
import pathlib
import shutil
import signal
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import continuation
import grpc_client
import processes
import restore_plan
import shard_client
from fault_cluster import LOSSLESS_MODES, FaultCluster, Member
from kill_loop import Result
from kill_schedule import COORDINATOR, KILL, SHARD, TRAINER
from processes import Process
from restore_plan import COMMAND, CRASH, Round
from tracer_cuts import Cut, judge, read_manifests
from tracer_process import TAKEN_BACK_EXIT, TracerProcess

SHARDS = 3
IN_FLIGHT = (1, 2, 4)
# As TracerModel() says.
TRACED = shard_client.table_spec("count", 32, 4, num_slots=16)
# Rows that nobody changes, so that checkpoints can be built on earlier ones.
IDLE = shard_client.model_spec("idle", shard_client.table_spec("rows", 2000, 24, init="uniform"))

_PROGRESS_STEPS = 10
_RETRY_SECONDS = 0.05


class CheckpointCall(threading.Thread):
    """A call that takes a cluster checkpoint, after a while."""

    def __init__(self, address: str, delay: float) -> None:
        super().__init__(daemon=True)
        self._address, self._delay = address, delay
        self.begun = threading.Event()
        self.checkpoint_id: int | None = None
        self.error = ""

    def run(self) -> None:
        time.sleep(self._delay)
        self.begun.set()
        try:
            with grpc_client.Connection(self._address) as connection:
                taken = shard_client.create_cluster_checkpoint(connection)
                self.checkpoint_id = taken.checkpoint_id
        except (grpc_client.ConnectionLost, grpc_client.CallFailed) as error:
            self.error = str(error)

    def under_way(self) -> bool:
        return self.begun.is_set() and self.is_alive()


class RestoreLoop(contextlib.ExitStack):
    """One cluster and its rounds: start(), play() for each, finish()."""

    def __init__(self, seed: object, mode: str, directory: pathlib.Path,
                 say: Callable[[str], None] = lambda line: None) -> None:
        super().__init__()
        self._seed, self._mode, self._say = seed, mode, say
        self._directory = directory
        self.cluster = self.enter_context(FaultCluster(
            directory, SHARDS, mode, server_flags=("--disk-reserve", "0"), coordinator_flags=(
                "--checkpoint-interval", "off", "--barrier-timeout",
                f"{restore_plan.BARRIER_SECONDS}s")))
        self.tracers = [
            TracerProcess(f"tracer-{number}", self.cluster.coordinator_address, in_flight,
                          directory) for number, in_flight in enumerate(IN_FLIGHT)]
        for tracer in self.tracers:
            self.callback(tracer.kill)
        self._idle_digests: list[dict[str, tuple[int, int]]] = []
        self._cuts: dict[int, Cut] = {}  # {checkpoint_id: Cut}
        self._listed: frozenset[str] = frozenset()
        self._down: set[Any] = set()  # members that were killed and have not begun again
        self._restore_count = 0
        self.counts: collections.Counter[Any] = collections.Counter()
        self.violations: list[str] = []

    # --- beginning -------------------------------------------------------------------------------

    def start(self) -> None:
        self.cluster.start()
        self.cluster.register_model(IDLE)
        self._idle_digests = self._digests(IDLE.name)
        self._begin_tracers()
        self._take()

    def _begin_tracers(self, expected: dict[str, Any] | None = None) -> None:
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
        self.violations.append(f"seed {self._seed}, {self._mode}: {what}")
        self._say(f"VIOLATION: {what}")

    # --- checkpoints -----------------------------------------------------------------------------

    def _take(self, strikes: Sequence[restore_plan.Strike] = ()) -> bool:
        """One committed checkpoint more; false when the cluster went back instead."""
        until = time.monotonic() + processes.PATIENCE_SECONDS
        while True:
            lives = {tracer.name: tracer.life for tracer in self.tracers}
            finished = {tracer.name: tracer.finished() for tracer in self.tracers}
            call = self._call_with(strikes)
            if self._note_cuts(lives, finished) and not self._lost_rows(strikes):
                return True
            if self._lost_rows(strikes):
                self._wait_until_back()
                return False
            if time.monotonic() > until:
                raise AssertionError(f"no checkpoint can be taken: {call.error}")
            strikes = ()
            time.sleep(_RETRY_SECONDS)

    def _call_with(self, strikes: Sequence[restore_plan.Strike]) -> CheckpointCall:
        """A CheckpointCall that is over, and the strikes that befell it."""
        lead = min((strike.lead for strike in strikes), default=0.0)
        call = CheckpointCall(self.cluster.coordinator_address, max(0.0, -lead))
        began = time.monotonic() + max(0.0, -lead)
        call.start()
        # (when, number, strike or what lets its victim go on)
        due: list[tuple[float, int, Any]] = [
            (began + strike.lead, number, strike) for number, strike in enumerate(strikes)]
        while due:
            due.sort(key=lambda entry: entry[:2])
            when, number, what = due.pop(0)
            time.sleep(max(0.0, when - time.monotonic()))
            if isinstance(what, restore_plan.Strike):
                due.append((time.monotonic() + what.away, number, self._strike(what, call)))
            else:
                what()
        call.join()
        return call

    def _strike(self, strike: restore_plan.Strike, call: CheckpointCall) -> Callable[[], object]:
        """What has to be done for the victim to go on."""
        during = "during" if strike.lead < 0 or call.under_way() else "after"
        self.counts[f"{strike.deed}s_{during}"] += 1
        self.counts["deed", f"{strike.deed} {strike.kind}"] += 1
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
        member.process.send(signal.SIGSTOP)
        # It may be killed while it is paused, and another process be there.
        paused = member.process
        return lambda: paused.send(signal.SIGCONT) if self._is_there(member, paused) else None

    def _kill(self, member: Any) -> None:
        member.kill()
        self._down.add(member)

    def _start(self, member: Any) -> None:
        self._down.discard(member)
        member.start()

    def _is_there(self, member: Any, process: Process) -> bool:
        return member not in self._down and member.process is process and process.running()

    def _lost_rows(self, strikes: Sequence[restore_plan.Strike]) -> bool:
        return self._mode not in LOSSLESS_MODES and any(
            (strike.kind, strike.deed) == (SHARD, KILL) for strike in strikes)

    def _note_cuts(self, lives: dict[str, Any], finished: dict[str, int]) -> bool:
        """Whether there are checkpoints that were not there before; also when nobody was told."""
        manifests = read_manifests(self.cluster.directory / "coordinator-data")
        new = sorted(manifests.keys() - self._cuts.keys())
        for checkpoint_id in new:
            self._listed |= manifests[checkpoint_id].evicted
            self._cuts[checkpoint_id] = Cut(manifests[checkpoint_id], lives, finished, self._listed)
            self.counts["checkpoints"] += 1
            self.counts["evicted"] += len(manifests[checkpoint_id].evicted)
        self._cuts = {
            checkpoint_id: cut
            for checkpoint_id, cut in self._cuts.items()
            if checkpoint_id in manifests
        }
        return bool(new)

    # --- restores --------------------------------------------------------------------------------

    def play(self, planned: Round) -> None:
        """One Round."""
        back = False
        for number in range(planned.checkpoints):
            time.sleep(planned.steps[number])
            if not self._take(planned.strikes.get(number, ())):
                back = True
                break
        if back:
            self._judge("crash during a checkpoint", max(self._cuts))
        else:
            time.sleep(planned.steps[-1])
            self._go_back(planned)
        self.counts["restores"] += 1

    def _go_back(self, planned: Round) -> None:
        newest = sorted(self._cuts)[::-1]
        if planned.way == CRASH and self._mode not in LOSSLESS_MODES:
            self._crash(planned.crashed)
            self._wait_until_back()
            self._judge(CRASH, newest[0])
            return
        checkpoint_id = newest[min(planned.back, len(newest) - 1)]
        self._restore(checkpoint_id)
        self._judge(
            COMMAND, checkpoint_id, crashed=planned.crashed if planned.way == CRASH else None)

    def _crash(self, shard: int) -> None:
        self._kill(self.cluster.shards[shard])
        self._start(self.cluster.shards[shard])

    def _restore(self, checkpoint_id: int) -> None:
        """A shard that has only just come back may not be known yet: asked again."""
        last: list[processes.Finished] = []

        def restored() -> bool:
            self.counts["commands"] += 1
            command = Member(f"restore-{self.counts['commands']}", "dslide", [
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
        self._wait_until_back()

    def _wait_until_back(self) -> None:
        """Until clients get a map of another restore_count."""

        def restore_count() -> int | None:
            with contextlib.suppress(grpc_client.ConnectionLost, grpc_client.CallFailed):
                with grpc_client.Connection(self.cluster.coordinator_address) as connection:
                    return shard_client.cluster_map(connection).restore_count
            return None

        def back() -> int | None:
            now = restore_count()
            return now if now is not None and now > self._restore_count else None

        self._restore_count = processes.wait_until(back, lambda: "the cluster was taken back")

    # --- judgement -------------------------------------------------------------------------------

    def _judge(self, way: str, checkpoint_id: int, crashed: int | None = None) -> None:
        """What the shards show now, while tracers of before still try, and when they are gone."""
        cut = self._cuts[checkpoint_id]
        first = self._read()
        sent = self._end_tracers(cut)
        if crashed is not None:
            # What was restored must be in the shard's log, too.
            self._crash(crashed)
            self.cluster.wait_for_model(IDLE.name)
        rows = self._read()
        verdicts = [judge(cut, name, rows[name], sent[name]) for name in rows]
        for verdict in verdicts:
            if rows[verdict.tracer] != first[verdict.tracer]:
                verdict.problems.append(f"rows of {verdict.tracer} changed after the restore")
            if verdict.problems:
                self.counts["mismatches"] += 1
            for problem in verdict.problems:
                self._broken(f"{way}: {problem}")
            if verdict.partial:
                self.counts["partial_clients"] += 1
                self.counts["partial_steps_max"] = max(self.counts["partial_steps_max"],
                                                       verdict.partial)
        if self._digests(IDLE.name) != self._idle_digests:
            self._broken(f"{way}: rows that nobody has changed are other ones")
        self.counts["part", cut.manifest.kind] += 1
        self.counts["way", way] += 1
        self._say(f"restore {self.counts['restores'] + 1} ({self._mode}, {way}, "
                  f"{cut.manifest.kind}): checkpoint {checkpoint_id}, "
                  f"{[verdict.counts for verdict in verdicts]}")
        self._begin_tracers({verdict.tracer: verdict.counts for verdict in verdicts})

    def _rows(self, model: str) -> list[list[float]]:
        """[all numbers of a tracer's rows on a shard] by shard."""
        rows = []
        for shard in range(SHARDS):
            with grpc_client.Connection(self.cluster.direct_address(shard)) as connection:
                weights, _ = shard_client.gather_bytes(
                    connection, model, TRACED.name,
                    shard_client.rows_of_shard(TRACED, shard, SHARDS))
            rows.append(list(struct.unpack(f"<{len(weights) // 4}f", weights)))
        return rows

    def _read(self) -> dict[str, list[list[float]]]:
        return {tracer.name: self._rows(tracer.name) for tracer in self.tracers}

    def _digests(self, model: str) -> list[dict[str, tuple[int, int]]]:
        """[(digest, applied steps) of each table] by shard."""
        found = []
        for shard in range(SHARDS):
            with grpc_client.Connection(self.cluster.direct_address(shard)) as connection:
                tables = shard_client.describe_model(connection, model)
            found.append({name: (table.digest, table.applied_steps)
                          for name, table in sorted(tables.items())})
        return found

    def _end_tracers(self, cut: Cut) -> dict[str, int | None]:
        """Waits until those that were not killed have noticed: {tracer: steps that its life in the
        cut has sent}, None where nobody knows."""
        sent: dict[str, int | None] = {}
        for tracer in self.tracers:
            sent[tracer.name] = None
            if tracer in self._down:
                continue
            finished = tracer.process.finish()
            if finished.code != TAKEN_BACK_EXIT:
                self._broken(f"{tracer.name} was to notice that its cluster was taken back: "
                             f"{finished}")
            if tracer.life == cut.lives[tracer.name]:
                sent[tracer.name] = tracer.sent()
        return sent

    # --- the end ---------------------------------------------------------------------------------

    def finish(self) -> None:
        """Whether a training goes on from a restored checkpoint as it went on without."""
        trained = continuation.Training(self._directory, self.cluster.coordinator_address)
        trained.go_on()
        self._take()
        checkpoint_id = max(self._cuts)
        trained.go_on()
        never_stopped = self._digests(trained.MODEL), trained.predictions()
        self._restore(checkpoint_id)
        trained.go_on()
        restored = self._digests(trained.MODEL), trained.predictions()
        self.counts["continuations"] += 1
        if restored != never_stopped:
            self.counts["continuation_mismatches"] += 1
            self._broken(
                f"a training that went on from checkpoint {checkpoint_id} ended elsewhere than "
                f"without a stop: {restored[0]} and {never_stopped[0]}"
                f"{', and other predictions' if restored[1] != never_stopped[1] else ''}")


def _play(mode: str, restores: int, seed: object, directory: pathlib.Path,
          say: Callable[[str], None]) -> tuple[collections.Counter[Any], list[str]]:
    """(counts, violations) of one cluster."""
    planned = restore_plan.plan(seed, restores, SHARDS, len(IN_FLIGHT))
    with RestoreLoop(seed, mode, directory, say) as loop:
        try:
            loop.start()
            for one in planned:
                loop.play(one)
            loop.finish()
        except (AssertionError, OSError, grpc_client.ConnectionLost,
                grpc_client.CallFailed) as error:
            loop.violations.append(f"seed {seed}, {mode}: {error}")
            say(f"VIOLATION: {error}")
    return loop.counts, loop.violations


def _part(counts: collections.Counter[Any], name: str) -> dict[str, int]:
    return {key[1]: count for key, count in sorted(counts.items(), key=str)
            if isinstance(key, tuple) and key[0] == name}


def run(seed: object, restores: int, say: Callable[[str], None] = lambda line: None) -> Result:
    """{restores, mismatches, violations, ...} over as many clusters as that takes."""
    counts: collections.Counter[Any] = collections.Counter()
    modes: collections.Counter[str] = collections.Counter()
    violations: list[str] = []
    started = time.monotonic()
    for number, (mode, portion) in enumerate(restore_plan.portions(restores)):
        directory = pathlib.Path(tempfile.mkdtemp(prefix="dslide-restores-"))
        directory = directory / f"cluster-{number + 1}"
        directory.mkdir(parents=True)
        found, wrong = _play(mode, portion, f"{seed}/{number}", directory, say)
        worst = max(counts["partial_steps_max"], found.pop("partial_steps_max", 0))
        counts += found
        counts["partial_steps_max"] = worst
        modes[mode] += found["restores"]
        violations += [f"{what}; see {directory}" for what in wrong]
        if not wrong:
            shutil.rmtree(directory.parent, ignore_errors=True)
    return {
        "seed": seed, "restores": counts["restores"], "mismatches": counts["mismatches"],
        "checkpoints": counts["checkpoints"], "modes": dict(modes),
        "kinds_of_parts": _part(counts, "part"), "ways": _part(counts, "way"),
        "deeds": _part(counts, "deed"), "kills_during_checkpoints": counts["kills_during"],
        "pauses_during_checkpoints": counts["pauses_during"], "evicted": counts["evicted"],
        "partial_clients": counts["partial_clients"],
        "partial_steps_max": counts["partial_steps_max"],
        "continuations": counts["continuations"],
        "continuation_mismatches": counts["continuation_mismatches"],
        "violations": violations, "seconds": round(time.monotonic() - started, 1),
    }
