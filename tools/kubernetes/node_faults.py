"""Nodes fail in turns while a job trains and a client counts: nothing that was acknowledged is
lost, nothing is there twice, and the job ends as one that nobody disturbed."""

from __future__ import annotations

import pathlib
import sys
import time
from collections.abc import Callable

from cluster import Cluster, ClusterError, wait_until
from examiner import Examiner
from faults import Drain, Fault, FullDisk, MemoryShortage, NetworkCut, PowerLoss
from increments import Increments
from lasting_training import FAST, SLOWLY, Training
from release import COORDINATOR, Release
from steps import Steps

EPOCHS = 50
SHARDS = 2  # of values.yaml
VALUES = pathlib.Path(__file__).with_name("faults.yaml")


class Player:
    """Plays faults, each when all is well again, and tells how long that took."""

    def __init__(self, release: Release, steps: Steps, training: Training,
                 increments: Increments) -> None:
        self._release = release
        self._steps = steps
        self._training = training
        self._increments = increments

    def __call__(self, fault: Fault) -> None:
        lives = self._release.lives()
        done = self._training.samples() or 0
        self._steps(f"{fault.name}: lasted", fault.strike)
        # A coordinator that does not answer has counted nothing since.
        done = max(done, self._training.samples() or 0)
        healed = time.monotonic_ns()
        fault.heal()
        self._note(fault, "increments", self._increments.wait_for_answers(healed))
        wait_until(lambda: (self._training.samples() or 0) > done, "the training goes on")
        self._note(fault, "training", (time.monotonic_ns() - healed) / 1e9)
        wait_until(self._release.is_whole, "every pod is ready")
        self._note(fault, "every pod", (time.monotonic_ns() - healed) / 1e9)
        if fault.spares_servers and self._release.lives() != lives:
            raise ClusterError(f"{fault.name}: a server was started again")
        self._training.check_goes_on()

    def _note(self, fault: Fault, what: str, seconds: float) -> None:
        self._steps.note(f"{fault.name}: {what} after its end", seconds)


def node_faults(cluster: Cluster, dslide: pathlib.Path, steps: Steps) -> None:
    release = Release(cluster, dslide, [VALUES], ["--insecure"])
    undisturbed = Training(release, "undisturbed", EPOCHS)
    steps("install", lambda: release.apply("install", *undisturbed.settings, FAST))
    steps("train undisturbed", undisturbed.end)
    disturbed = Training(release, "disturbed", EPOCHS)
    steps("another job", lambda: release.apply("upgrade", *disturbed.settings, SLOWLY))
    increments = Increments(cluster, COORDINATOR, [release.shard_address(shard)
                                                   for shard in range(SHARDS)])
    watch = release.watch_trainers()
    play = Player(release, steps, disturbed, increments)
    # Made one by one: pods move from node to node.
    faults: list[Callable[[], Fault]] = [
        lambda: PowerLoss(cluster, release, 0),
        lambda: Drain(cluster, release, 1, other=0),
        lambda: Drain(cluster, release, 0, other=1),
        lambda: MemoryShortage(cluster, release, 1),
        lambda: FullDisk(cluster, release, 0, increments),
        lambda: NetworkCut(cluster),
    ]
    for make in faults:
        play(make())
    steps("faster trainers", lambda: release.apply("upgrade", *disturbed.settings, FAST))
    steps("train to the end", disturbed.end)
    verdict = increments.verdict()
    print(f"   increments: {verdict['acked']} acknowledged, all there once; {verdict['repeated']} "
          f"sent more than once", file=sys.stderr)
    print(f"   pods of trainers that ended before their job: {watch.failed()}", file=sys.stderr)
    Examiner(cluster, dslide, release).compare(disturbed.name, undisturbed.name)
    steps("uninstall", release.remove)
