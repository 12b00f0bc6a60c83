"""One job whose coordinator, shards and trainers are killed, again and again.

Two shards with a command log and two trainers that share a job of 14 epochs. The kills are spread
over the job's samples; half of them come soon after the one before, while something is likely to
recover. In the end the job must have its epochs, each chunk once, and a model as good as that of a
run in one process that nobody disturbed. Who joins the finished job trains nothing and changes
nothing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import time
from collections.abc import Callable, Mapping
from typing import Any

import grpc_client
import processes
import shard_client
import twin
from fault_cluster import FaultCluster, Member
from kill_schedule import (
    COORDINATOR,
    EARLY_SECONDS,
    KILL,
    SHARD,
    TRAINER,
    Strike,
    schedule,
)

JOB = "hunted"
EPOCHS = 14
SHARDS = 2
TRAINERS = 2
# Wide enough apart from chance: the standard deviation of P@1 0.93 over so many points is 0.0025.
TEST_POINTS = 10_000
PRECISION_TOLERANCE = 0.01
# A kill takes about a second; meanwhile some hundred samples are trained.
POINTS, POINTS_OF_A_KILL = 6000, 80

Result = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Settings:
    seed: int
    kills: Mapping[str, int]  # {kind: how many}, of COORDINATOR, SHARD and TRAINER
    joins: int = 5  # of the job that is over

    def points(self) -> int:
        return POINTS + POINTS_OF_A_KILL * sum(self.kills.values())


class JobLoop(contextlib.ExitStack):
    """One run: start(), strike() through the schedule, finish()."""

    def __init__(self, settings: Settings, directory: pathlib.Path) -> None:
        super().__init__()
        self._directory = directory
        self._settings = settings
        self.counts = dict.fromkeys((COORDINATOR, SHARD, TRAINER), 0)
        self.cluster = self.enter_context(FaultCluster(
            directory, SHARDS, "log", settings.seed, admin=True, lease_timeout="2s",
            shard_flags=("--log-image-interval", "16MiB")))
        train = ["train", "-q", "-o", "json", "--threads", 1, "--data", directory / "train.txt",
                 "--eval", directory / "test.txt", "--epochs", EPOCHS, "--batch-size", 16]
        self._joining = [*train, "--cluster", self.cluster.coordinator_address, "--job", JOB]
        self._alone = [*train, "--shards", SHARDS]
        self.trainers = [self._member(f"trainer-{number}", self._joining)
                         for number in range(TRAINERS)]
        self._victims = {COORDINATOR: [self.cluster.coordinator], SHARD: self.cluster.shards,
                         TRAINER: self.trainers}
        self.problems: list[str] = []
        self._undisturbed: Result = {}
        self._total = 0

    def _member(self, name: str, arguments: list[object]) -> Member:
        member = Member(name, "dslide", arguments, self._directory, {"OMP_WAIT_POLICY": "passive"})
        self.callback(member.kill)
        return member

    def _dslide(self, name: str, *arguments: object) -> processes.Finished:
        """Runs `dslide` to its end."""
        member = self._member(name, list(arguments))
        member.start()
        finished = member.process.finish()
        if finished.code != 0:
            raise RuntimeError(str(finished))
        return finished

    def start(self) -> None:
        points = self._settings.points()
        for name, first, count in (("train", 0, points), ("test", points, TEST_POINTS)):
            self._dslide(f"data-{name}", "data", "gen", "--output", self._directory / f"{name}.txt",
                         "--points", count, "--first-point", first, "--features", 2000,
                         "--labels", 3000, "--seed", 7)
        self._undisturbed = self._dslide("undisturbed", *self._alone).json()
        self.cluster.start()
        for trainer in self.trainers:
            trainer.start()
        self._total = EPOCHS * self._await(self._samples_per_epoch, "the job")

    # --- strikes ---------------------------------------------------------------------------------

    def strike(self, strike: Strike, part: float) -> bool:
        """Kills the victim when this part of the job is trained, or soon after the kill before;
        False when the job was over before."""
        if strike.pause < EARLY_SECONDS[1]:
            time.sleep(strike.pause)
        else:
            self._await(lambda: self.over() or (self.samples() or 0) >= part * self._total,
                        f"{part:.0%} of the job")
        if self.over():
            return False
        victim = self._victims[strike.kind][strike.victim]
        victim.kill()
        self.counts[strike.kind] += 1
        time.sleep(strike.away)
        victim.start()
        return True

    def over(self) -> bool:
        """Whether a trainer has ended by itself: nothing but the end of the job is a reason."""
        return any(not trainer.running() for trainer in self.trainers)

    def _samples_per_epoch(self) -> int | None:
        with contextlib.suppress(grpc_client.ConnectionLost, grpc_client.CallFailed):
            with grpc_client.Connection(self.cluster.coordinator_address) as connection:
                jobs = shard_client.cluster_status(connection).jobs
            return next((job.samples_per_epoch for job in jobs if job.job == JOB), None)
        return None

    def samples(self) -> int | None:
        """What the job has trained; None while nobody answers."""
        with contextlib.suppress(grpc_client.ConnectionLost, grpc_client.CallFailed):
            with grpc_client.Connection(self.cluster.coordinator_address) as connection:
                return shard_client.job_samples(connection, JOB)
        return None

    def _await(self, condition: Callable[[], int | bool | None], what: str) -> int:
        servers = [self.cluster.coordinator, *self.cluster.shards]
        return int(processes.wait_until(condition, lambda: what,
                                        [server.process for server in servers]))

    # --- the end ---------------------------------------------------------------------------------

    def finish(self) -> Result:
        """Lets the job end, joins it again and again, and returns the result of the run."""
        ends = []
        for trainer in self.trainers:
            finished = trainer.process.finish()
            if finished.code != 0:
                self.problems.append(f"{trainer.name}: {finished}")
            else:
                ends.append(finished.json())
        self.cluster.wait_until_ready()
        [job] = json.loads(self._dslide(
            "list", "job", "list", "--cluster", self.cluster.coordinator_address, "-o",
            "json").stdout)["jobs"]
        return self._result(job, ends, *self._join())

    def _model_digests(self) -> dict[str, twin.Digests]:
        with grpc_client.Connection(self.cluster.coordinator_address) as connection:
            models = [model.name for model in shard_client.models(connection)]
        return {str(shard): twin.settled_digests_of(self.cluster.direct_address(shard), models)
                for shard in range(SHARDS)}

    def _join(self) -> tuple[int, int]:
        """(steps that the joining trainers made, joins after which the model was another)."""
        steps = changed = 0
        before, restored = self._model_digests(), self.cluster.restore_count()
        for number in range(self._settings.joins):
            steps += self._dslide(f"join-{number}", *self._joining).json()["steps"]
            changed += (self._model_digests() != before
                        or self.cluster.restore_count() != restored)
        return steps, changed

    def _result(self, job: Result, ends: list[Result], trained_again: int,
                changed: int) -> Result:
        found = {f"{kind}_kills": count for kind, count in self.counts.items()} | {
            "epochs": [point["epoch"] for point in job["epochs"]],
            "finished": job["finished"] and not job["cancelled"],
            "samples": self.samples(), "samples_expected": EPOCHS * job["samples_per_epoch"],
            "p_at_1": [end["p_at_1"] for end in ends],
            "undisturbed_p_at_1": self._undisturbed["p_at_1"],
            "acked_lost": int(sum(map(self._lost, self.cluster.shards))),
            "joins": self._settings.joins, "trained_again": trained_again,
            "changed_by_joining": changed, "problems": self.problems}
        return found | {"violations": violations(found, self._settings.kills)}

    def _lost(self, shard: Member) -> float:
        """Acknowledged updates that it knows to have lost."""
        return sum(processes.metric_values(processes.fetch(self.cluster.admin_address(shard)),
                                           "dslide_shard_acked_loss_total"))


def violations(found: Result, wanted: Mapping[str, int]) -> dict[str, int]:
    """{name: how much} of what a run found that must not be; `wanted` are the kills of its plan."""
    made = {kind: found[f"{kind}_kills"] for kind in wanted}
    other = [precision for precision in found["p_at_1"]
             if abs(precision - found["undisturbed_p_at_1"]) > PRECISION_TOLERANCE]
    counted = {
        "too_few_kills": sum(wanted.values()) - sum(made.values()),
        "epochs_differ": int(found["epochs"] != list(range(EPOCHS))),
        "unfinished": int(not found["finished"]),
        "samples_differ": abs((found["samples"] or 0) - found["samples_expected"]),
        "other_precision": len(other), "problems": len(found["problems"])} | {
        name: found[name] for name in ("acked_lost", "trained_again", "changed_by_joining")}
    return {name: count for name, count in counted.items() if count}


def run(settings: Settings, directory: pathlib.Path,
        report: Callable[[str], None] = lambda line: None) -> Result:
    """One run in `directory`, which must exist and be empty; its result."""
    planned = schedule(settings.seed, {(kind, KILL): count for kind, count
                                       in settings.kills.items()},
                       {COORDINATOR: 1, SHARD: SHARDS, TRAINER: TRAINERS})
    with JobLoop(settings, directory) as loop:
        loop.start()
        for number, strike in enumerate(planned, 1):
            if not loop.strike(strike, number / (len(planned) + 1)):
                break
            report(f"{number}/{len(planned)}: kill {strike.kind} {strike.victim}")
        result = loop.finish()
    (directory / "result.json").write_text(json.dumps(result) + "\n", encoding="utf-8")
    return result
