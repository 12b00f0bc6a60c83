"""Kills the processes of a working cluster, again and again, and judges the fate of every update.

A coordinator, shards, trainers (`dslide train`) and increment clients run as processes. The seed
gives a schedule of SIGKILLs; every victim is started again on its address and data directory.
Shards may be stopped (SIGTERM) and paused (SIGSTOP), too. With rules, everything reaches
the shards through proxies that delay, cut and lose replies; they also make partitions.
At the end the sums are read from the shards, and the oracle compares them with what the clients
have recorded. Shards with a log are also compared with twins that were never interrupted (twin.py).

With `increments`, clients count as fast as they can until so many increments were acknowledged,
over a network that loses one reply in twenty; the strikes are spread over them.

In the mode `checkpoint` a killed shard loses what it has
acknowledged since its last checkpoint, which is no violation there; `expect_loss` makes it one
*not* to find any: a test of this program itself.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import shutil
import signal
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import grpc_client
import increment_cells
import increment_client
import processes
import shard_client
import twin
from fault_cluster import LOSSLESS_MODES, FaultCluster, Member
from fault_plan import DOWN, UP, Rule
from increment_cells import final_sums, model_for
from kill_schedule import (
    CLIENT,
    COORDINATOR,
    DEEDS,
    KILL,
    PARTITION,
    PAUSE,
    SHARD,
    STOP,
    TRAINER,
    Strike,
    schedule,
)
from oracle import Event, HistoryTail, Sums, judge, read_history, recovery_seconds

SETTLE_SECONDS = 1.0
# Answers of every shard that show that work goes on.
_PROGRESS_ANSWERS = 10
# Exit codes of `dslide train`: its shard did not come back in time, or came back without its rows.
_LOST_SHARD_EXITS = (4, 5)
_INTERRUPTED = 130

# Small steps and small leases: progress shows soon, also where connections live for 400 KB.
TRAINED_MODEL = {
    "name": "trained",
    "tables": [
        {"name": "input", "role": "embedding", "dim": 16, "bias_row": True},
        {"name": "labels", "role": "head", "dim": 16, "head": {"max_active": 0}},
    ],
    "training": {"batch_size": 32, "chunk_samples": 128, "max_epochs": 1000000,
                 "validation_fraction": 0.0},
}

# Bytes of the increment clients are few: a connection lives for some dozens of their updates.
FAULTY_NETWORK = (
    Rule("delay", seconds=0.0005, jitter=0.002),
    Rule("lose_reply", DOWN, every=150, frame="HEADERS"),
    Rule("cut", UP, every=400_000),
    Rule("cut", DOWN, every=400_000),
    Rule("stall", DOWN, every=600_000, seconds=0.5),
)

# An answer has two HEADERS, and is lost with either of them: one in twenty, and with it the
# connection. A repeated DATA ends its connection, too.
LOSSY_NETWORK = (
    Rule("delay", seconds=0.0005, jitter=0.002),
    Rule("lose_reply", DOWN, every=39, frame="HEADERS"),
    Rule("duplicate", UP, every=400, frame="DATA"),
)


Result = dict[str, Any]


@dataclasses.dataclass
class Settings:
    seed: int
    mode: str = "checkpoint"
    shards: int = 2
    clients: int = 2
    trainers: int = 1
    # {(kind, deed): how many}
    strikes: Mapping[tuple[str, str], int] = dataclasses.field(default_factory=dict)
    rules: Sequence[Rule] | None = None  # of the proxies before the shards; None: no proxies
    rate: float = 150.0
    expect_loss: bool = False
    cluster: dict[str, Any] | None = None  # further arguments of FaultCluster
    increments: int = 0  # the run goes on until so many were acknowledged, strikes spread over them

    def members(self) -> dict[str, int]:
        return {SHARD: self.shards, TRAINER: self.trainers, CLIENT: self.clients, COORDINATOR: 1}

    def lanes(self) -> int:
        """Of each shard, enough for every client id: a strike makes new ones, and so does a full
        lane. They cost 8 KiB each, so there are several times as many as should be needed."""
        strikes = sum(self.strikes.values())
        if self.increments:
            full = 2 * self.increments / increment_cells.SEQUENCES_PER_LANE / self.shards
            return int(full) + 2 * self.clients * (strikes + 5)
        full = (60 + 4 * strikes) * self.rate / increment_cells.SEQUENCES_PER_LANE
        return 4 * int(self.clients * (full + strikes + 5))


def increment_settings(seed: int, increments: int, kills: int, clients: int = 8) -> Settings:
    """A run with many fast clients, small logs to replay, and a network that loses replies."""
    return Settings(
        seed, "log", shards=2, clients=clients, trainers=0, strikes={(SHARD, KILL): kills},
        rules=LOSSY_NETWORK, rate=5000.0, increments=increments,
        cluster={"shard_flags": ["--log-image-interval", "16MiB"]})


class KillLoop(contextlib.ExitStack):
    """One run: start(), strike() through the schedule, verdict()."""

    def __init__(self, settings: Settings, directory: pathlib.Path) -> None:
        super().__init__()
        self.settings = settings
        self.directory = directory
        self._lanes = settings.lanes()
        self.model = model_for(self._lanes, settings.shards)
        self.cluster = self.enter_context(FaultCluster(
            directory, settings.shards, settings.mode, settings.seed, settings.rules,
            **self.cluster_options()))
        self._strike_times: list[tuple[int, int]] = []  # (ns, shard) of kills and stops
        self.counts = {deed: 0 for deed in DEEDS}
        self._tail = HistoryTail(directory)
        self._answered = [0] * settings.shards
        self.problems: list[str] = []
        # [what the comparison with a twin has found] of each shard
        self.twins: list[dict[str, Any]] | None = None
        self.clients = [self._client(number) for number in range(settings.clients)]
        self.trainers = [self._trainer(number) for number in range(settings.trainers)]
        self._victims = {SHARD: self.cluster.shards, TRAINER: self.trainers, CLIENT: self.clients,
                         COORDINATOR: [self.cluster.coordinator]}

    def cluster_options(self) -> dict[str, Any]:
        """Further arguments of FaultCluster."""
        return self.settings.cluster or {}

    def _member(self, name: str, program: str, arguments: Any,
                wrapper: Sequence[str] = ()) -> Member:
        member = Member(name, program, arguments, self.directory, {"OMP_WAIT_POLICY": "passive"},
                        wrapper)
        self.callback(member.kill)
        return member

    def _history(self, number: int, life: int) -> pathlib.Path:
        return self.directory / f"history-{number}-{life}.jsonl"

    def _client(self, number: int) -> Member:
        settings = self.settings

        def arguments(life: int) -> list[object]:
            shards = [word for shard in range(settings.shards)
                      for word in ("--shard", self.cluster.client_address(shard))]
            return [*shards, "--history", self._history(number, life),
                    "--lanes", self.directory / "lanes", "--lane-count", self._lanes,
                    "--rate", settings.rate, "--seed", f"{settings.seed}/{number}/{life}"]

        return self._member(f"client-{number}", increment_client.__file__, arguments,
                            [sys.executable])

    def _trainer(self, number: int) -> Member:
        return self._member(f"trainer-{number}", "dslide", [
            "train", "-q", "--cluster", self.cluster.coordinator_address, "--job", "kill-loop",
            "--data", self.directory / "data.txt", "--model", self.directory / "spec.json",
            "--threads", 1])

    def start(self) -> None:
        if self.trainers:
            (self.directory / "spec.json").write_text(json.dumps(TRAINED_MODEL), encoding="utf-8")
            made = Member("data", "dslide", ["data", "gen", "--output", self.directory / "data.txt",
                                             "--points", 5000, "--features", 500, "--labels", 600],
                          self.directory)
            made.start()
            made.process.finish()
            made.kill()
        self.cluster.start()
        self.cluster.register_model(self.model)
        for member in (*self.clients, *self.trainers):
            member.start()
        self._wait_for_progress("the first")

    # --- strikes ---------------------------------------------------------------------------------

    def strike(self, strike: Strike) -> None:
        """Waits, strikes, waits, lets the victim go on; meanwhile the others are looked after."""
        self._supervise(strike.pause)
        if self.settings.expect_loss:
            # On a slow machine nobody may have come back yet from what was before.
            self._wait_for_progress("before a strike")
        member = self._victims[strike.kind][strike.victim]
        self.counts[strike.kind, strike.deed] += 1
        if strike.deed == PAUSE:
            member.process.send(signal.SIGSTOP)
            self._supervise(strike.away)
            member.process.send(signal.SIGCONT)
            return
        if strike.deed == PARTITION:
            proxy = self.cluster.proxies[strike.victim]
            proxy.partition(strike.directions)
            self._supervise(strike.away)
            proxy.heal()
            return
        if strike.deed == STOP:
            self.stop_member(strike.kind, strike.victim, member)
        at = member.kill()
        if strike.kind == SHARD:
            self._strike_times.append((at, strike.victim))
        self._supervise(strike.away, gone=member)
        member.start()

    def stop_member(self, kind: str, victim: int, member: Member) -> None:
        """SIGTERM: a server ends with 0, whatever it does. For others to look closer."""
        finished = member.process.stop()
        if finished.code != 0:
            self.problems.append(f"{member.name} was told to stop: {finished}")

    def _supervise(self, seconds: float, gone: Member | None = None) -> None:
        """Starts again who ended without being killed, and remembers why."""
        until = time.monotonic() + seconds
        while True:
            for members in self._victims.values():
                for member in members:
                    if member is not gone and not member.running():
                        self._judge_end(member, member.collect_end())
                        member.start()
            if time.monotonic() >= until:
                return
            time.sleep(0.02)

    def _judge_end(self, member: Member, code: int | None) -> None:
        """Whoever ends by itself is a problem, but for trainers whose shard has lost rows."""
        if member in self.clients and code == increment_client.NO_LANE_EXIT:
            raise RuntimeError(f"the table of the run was too small: {member.ends[-1]}")
        losing = self.settings.mode not in LOSSLESS_MODES and self.counts[SHARD, KILL] > 0
        if member in self.trainers and losing and code in _LOST_SHARD_EXITS:
            return
        self.problems.append(f"{member.name} ended by itself: {member.ends[-1]}")

    # --- progress --------------------------------------------------------------------------------

    def _answers(self) -> list[int]:
        """[To updates of all increment clients so far, repeated ones not counted] by shard."""
        for event in self._tail.new("applied"):
            self._answered[event["shard"]] += "again" not in event
        return list(self._answered)

    def _wait_for_progress(self, which: str) -> None:
        """Until every shard and every kind of client has got further: nothing hangs."""
        wanted = [count + _PROGRESS_ANSWERS for count in self._answers()]

        def answered() -> bool:
            return all(now >= then for now, then in zip(self._answers(), wanted))

        if self._await(answered, f"answers of every shard ({which})"):
            self._wait_for_training(which)

    def _await(self, condition: Callable[[], object], what: str) -> bool:
        """Whether it came true, while everybody is looked after; a problem if not."""
        until = time.monotonic() + processes.PATIENCE_SECONDS
        while not condition():
            if time.monotonic() > until:
                self.problems.append(f"not within {processes.PATIENCE_SECONDS} s: {what}")
                return False
            self._supervise(0.05)
        return True

    def wait_for_increments(self, part: float) -> bool:
        """Until this part of the increments that are wanted is acknowledged; whether it was."""
        wanted = part * self.settings.increments
        before = sum(self._answers())
        while before < wanted:
            if not self._await(lambda: sum(self._answers()) > before,
                               f"one answer after {before} of {self.settings.increments}"):
                return False
            before = sum(self._answers())
        return True

    def _wait_for_training(self, which: str) -> None:
        if not self.trainers:
            return
        first = None

        def trained() -> bool:
            nonlocal first
            with contextlib.suppress(grpc_client.ConnectionLost, grpc_client.CallFailed):
                with grpc_client.Connection(self.cluster.coordinator_address) as connection:
                    done = shard_client.job_samples(connection, "kill-loop")
                if first is None or done < first:
                    first = done
                return done > first
            return False

        self._await(trained, f"samples that are trained ({which})")

    # --- the end ---------------------------------------------------------------------------------

    def finish(self) -> Result:
        """Lets everything settle, ends the clients, and returns the result of the run."""
        self.cluster.wait_until_ready()
        self.cluster.wait_for_model(self.model.name)
        self._wait_for_progress("after the kills")
        self._supervise(SETTLE_SECONDS)
        self.stop_clients()
        self._stop(self.trainers, signal.SIGINT, _INTERRUPTED)
        history, sums, miscounted = self.read_sums()
        if self.settings.mode in LOSSLESS_MODES:
            self._compare_with_twins()
        return self.summarize(self._result(history, sums, miscounted), history)

    def stop_clients(self) -> None:
        """Ends the increment clients once they have begun: earlier, a signal would kill them."""
        for number, client in enumerate(self.clients):
            processes.wait_until(self._history(number, client.lives).exists,
                                 lambda: "a history", alive=[client.process])
        self._stop(self.clients, signal.SIGTERM, 0)

    def _stop(self, members: Sequence[Member], signal_number: int, code: int) -> None:
        for member in members:
            finished = member.process.stop(signal_number)
            if finished.code != code:
                self.problems.append(f"{member.name} was stopped: {finished}")

    def read_sums(self) -> tuple[list[Event], Sums, list[Any]]:
        """All that the clients have recorded, and what the rows say of it."""
        history = read_history(sorted(self.directory.glob("history-*.jsonl")))
        addresses = [self.cluster.direct_address(shard) for shard in range(self.settings.shards)]
        return history, *final_sums(addresses, self.model, history)

    def _compare_with_twins(self) -> None:
        """Every shard is what it would be if nothing had ever happened to it: see twin.py."""
        with grpc_client.Connection(self.cluster.coordinator_address) as connection:
            models = [model.name for model in shard_client.models(connection)]
        self.twins = []
        for number, shard in enumerate(self.cluster.shards):
            live = twin.settled_digests_of(self.cluster.direct_address(number), models)
            shard.kill()
            copy = self.directory / f"twin-{number}"
            twin.copy_log(self.cluster.data_dir(number), copy)
            shard.start()
            replayed, found = twin.replay(copy, copy / "process", models)
            differing = twin.differing(live, replayed)
            again = twin.restored(shard.process)
            if again.digest != found.digest:
                differing.append(f"all: {again.digest} after a restart from image {again.image}, "
                                 f"{found.digest} from image {found.image} on")
            self.twins.append({"shard": number, "image": found.image, "replayed": found.replayed,
                               "differing": differing})
            if not differing:
                shutil.rmtree(copy)
        self.cluster.wait_until_ready()

    def summarize(self, result: Result, _history: list[Event]) -> Result:
        """What kinds of loops add to their result."""
        return result

    def _result(self, history: list[Event], sums: Sums, miscounted: list[Any]) -> Result:
        verdict = judge(history, sums)
        loss_allowed = self.settings.mode not in LOSSLESS_MODES and self.counts[SHARD, KILL] > 0
        differing = sum(bool(one["differing"]) for one in self.twins or ())
        final_sum = int(sum(cells[0] for cells in sums.values()))
        difference = final_sum - verdict.counts["acked"] - verdict.counts["unknown_applied"]
        violations = verdict.violations(loss_allowed) | {
            "miscounted": len(miscounted), "unreported": len(verdict.unreported),
            "false_reports": len(verdict.false_reports), "problems": len(self.problems),
            "digests_differ": differing, "sum_differs": 0 if loss_allowed else abs(difference),
            "too_few": max(0, self.settings.increments - verdict.counts["acked"]),
            "no_loss_found": int(self.settings.expect_loss and not verdict.acked_lost)}
        return {f"{kind}_{deed}s": count for (kind, deed), count in self.counts.items()
                } | verdict.summary() | {
            "final_sum": final_sum, "sum_difference": difference, "twins": self.twins,
            "bit_equal_shards": self.twins and len(self.twins) - differing,
            "digests_differ": self.twins and differing,
            "recovery_p99_seconds": quantile(recovery_seconds(history, self._strike_times), 0.99),
            "network_faults": self.cluster.faults(), "problems": self.problems,
            "violations": {name: count for name, count in violations.items() if count},
        }


def quantile(values: Sequence[float], part: float) -> float | None:
    """None for no values."""
    if len(values) < 2:
        return round(values[0], 3) if values else None
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return round(cuts[min(98, max(0, int(part * 100) - 1))], 3)


def run(settings: Settings, directory: pathlib.Path,
        report: Callable[[str], None] = lambda line: None,
        loop_class: Callable[[Settings, pathlib.Path], KillLoop] = KillLoop) -> Result:
    """One run in `directory`, which must exist and be empty; its result."""
    if settings.strikes.get((SHARD, PARTITION)) and settings.rules is None:
        raise ValueError("partitions are made by proxies: give rules")
    planned = schedule(settings.seed, settings.strikes, settings.members())
    with loop_class(settings, directory) as loop:
        loop.start()
        for number, strike in enumerate(planned, 1):
            if not loop.wait_for_increments(number / (len(planned) + 1)):
                break
            loop.strike(strike)
            report(f"{number}/{len(planned)}: {strike.deed} {strike.kind} {strike.victim}")
        loop.wait_for_increments(1)
        result = loop.finish()
    (directory / "result.json").write_text(json.dumps(result) + "\n", encoding="utf-8")
    return result


def broken(result: Result) -> list[str]:
    """What a result says that was wrong, a line each."""
    return [f"{result['violations']}", *result["problems"]] if result["violations"] else []
