"""Fills the disk of a shard that is working, or makes it read-only, and looks at what it does.

A cluster with increment clients and a trainer, as in kill_loop.py; the data directory of shard 0 is
a small tmpfs (mounting it needs the right to). In each round the rest of it is taken to the last
byte, for some seconds.

- `log`: a shard with a command log refuses updates with DISK_FULL. When there is space it applies
  them again, the same process. At the end it is killed and started again.
- `checkpoint`: a shard without a log goes on applying updates, cluster checkpoints fail, and the
  newest committed one stays whole. When there is space one is committed again.

The shard keeps a reserve on the volume. While that is released, a shard with a command log must go
on refusing, although there is what the reserve has left behind; with space, the reserve is back.

With the fault `read-only`, the data directory is an ext4 on a loop device, which the kernel makes
read-only under the open files, and which is writable again some seconds later.

- `log`: the shard ends with 1 and says that its log has failed; a start on the read-only disk ends
  with an error, too, and leaves everything as it is. When the disk is writable again, a start has
  all that was acknowledged, and applies updates.
- `checkpoint`: as with a full disk; a checkpoint is committed again, by the same process.

Nothing that was acknowledged may be lost, and nothing that was refused may be there. How long it
took to work again is reported.
"""

from __future__ import annotations

import contextlib
import functools
import pathlib
import re
import time
from typing import Any

import grpc_client
import kill_loop
import processes
import shard_client
from fault_cluster import Member, kept
from kill_loop import Result
from oracle import Event, HistoryTail
from read_only_disk import ReadOnlyDisk
from small_disk import SmallDisk

MEGABYTES = 400
RESERVE_MEGABYTES = 16
# How long the disk stays full after it was noticed.
FULL_SECONDS = 2.0
CHECKPOINT_SECONDS = 1
VOLUMES = {"log": "log", "checkpoint": "checkpoint"}  # volume: durability
# Rows of nobody; a MiB of them is one update.
BULK = shard_client.table_spec("bulk", 16384, 256)
_BULK_CLIENT = b"presses the disk"
_BULK_ROWS = 1000
# Of one update of a MiB; another one follows.
_PRESS_SECONDS = 30
_DATA_DIR_EXIT = 4
_FAILED = "no cluster checkpoint was taken"
_COMMITTED = re.compile(r"cluster checkpoint committed checkpoint_id=(\d+)")


class DiskFullLoop(kill_loop.KillLoop):
    """A kill loop in which nobody is killed but, at the end, the shard whose disk was full."""

    DISK: type[SmallDisk] | type[ReadOnlyDisk] = SmallDisk

    def __init__(self, settings: kill_loop.Settings, directory: pathlib.Path, rounds: int) -> None:
        super().__init__(settings, directory)
        self._rounds = rounds
        self._all_events = HistoryTail(directory)
        self._recent: list[Event] = []  # of the present round
        self.disk: Any = self.enter_context(self.DISK(self.cluster.data_dir(0), MEGABYTES))
        self.resumed: list[float] = []
        self.applied_while_full = 0
        self.refused = 0

    @property
    def logged(self) -> bool:
        return self.settings.mode == VOLUMES["log"]

    def cluster_options(self) -> dict[str, Any]:
        return {"coordinator_flags": ["--checkpoint-interval", f"{CHECKPOINT_SECONDS}s"],
                # Records of an image are thrown away: the log alone never fills the disk.
                "shard_flags": ["--disk-reserve", f"{RESERVE_MEGABYTES}MiB",
                                *(["--log-image-interval", "16MiB"] if self.logged else [])]}

    def _since(self, kind: str, when: int, **wanted: str) -> list[Event]:
        """Events of shard 0 of one kind after a time in ns, of this round."""
        self._recent += [event for event in self._all_events.new("invoke", "applied", "refused")
                         if event["shard"] == 0]
        return [event for event in self._recent
                if event["event"] == kind and event["t"] > when
                and all(event.get(key) == value for key, value in wanted.items())]

    def _sent_before(self, when: int) -> set[tuple[str, int]]:
        """(client, sequence) of the updates of this round that were sent before."""
        return {(event["client"], event["sequence"]) for event in self._recent
                if event["event"] == "invoke" and event["t"] <= when}

    def _committed(self) -> list[int]:
        """Numbers of the cluster checkpoints that were committed so far."""
        return list(map(int, _COMMITTED.findall(self.cluster.coordinator.process.stderr)))

    def play_round(self) -> None:
        """Fills the disk, and frees it."""
        self._recent.clear()
        if not self.logged:
            self._await(self._committed, "a first cluster checkpoint")
        full_at, words = time.monotonic_ns(), len(self.cluster.coordinator.process.stderr)

        def noticed() -> bool:
            # What is cleared away meanwhile is taken, too.
            self.disk.fill()
            if self.logged:
                if self._since("refused", full_at, reason="DISK_FULL"):
                    return True
                self._press()
                return False
            return _FAILED in self.cluster.coordinator.process.stderr[words:]

        self._await(noticed, "somebody notices that the disk is full")
        self._supervise(FULL_SECONDS)
        if not self.logged:
            self._verify_newest()
        committed, freed_at = len(self._committed()), time.monotonic_ns()
        self.applied_while_full += len(self._since("applied", full_at))
        self.refused += len(self._since("refused", full_at, reason="DISK_FULL"))
        if self.logged:
            self._check_released(freed_at)
            freed_at = time.monotonic_ns()
        self.disk.free()

        self._await_work(freed_at, committed)
        self._await(self._reserve.exists, "the reserve is back")

    def _await_work(self, since: int, committed: int) -> None:
        """Until the disk is in use again, which has been possible since then."""
        resumed_at: list[int] = []

        def working_again() -> bool:
            if self.logged:
                resumed_at.extend(event["t"] for event in self._since("applied", since))
            elif len(self._committed()) > committed:
                resumed_at.append(time.monotonic_ns())
            return bool(resumed_at)

        if self._await(working_again, "the shard works again"):
            self.resumed.append((min(resumed_at) - since) / 1e9)

    @property
    def _reserve(self) -> pathlib.Path:
        return pathlib.Path(self.disk.path, "RESERVE")

    def _check_released(self, since: int) -> None:
        """Half of the reserve is left to the shard: no update that is sent then is confirmed."""
        if self._reserve.exists():
            self.problems.append("the disk is full, and its reserve is there")
            return
        self.disk.fill()
        self.disk.shrink(RESERVE_MEGABYTES << 19)
        self._supervise(FULL_SECONDS)
        free = self.disk.free_bytes()
        confirmed = len({(event["client"], event["sequence"])
                         for event in self._since("applied", since)} - self._sent_before(since))
        if free < 1 << 20:
            self.problems.append(f"only {free} bytes of the reserve were left")
        if confirmed:
            self.problems.append(f"{confirmed} updates were confirmed with {free} bytes left, "
                                 "which the reserve has left behind")

    def _press(self) -> None:
        """One update of a MiB: what the log has reserved on the disk is used up soon."""
        rows = {row: [0.0] * BULK.dim
                for row in shard_client.rows_of_shard(BULK, 0, self.settings.shards)[:_BULK_ROWS]}
        # A connection of its own: one that is not read from is closed by the shard.
        with contextlib.suppress(grpc_client.ConnectionLost, grpc_client.CallFailed), \
                grpc_client.Connection(self.cluster.direct_address(0)) as connection:
            sequence = shard_client.hello(connection, "bulk", _BULK_CLIENT, 0).next_sequence
            envelope = shard_client.envelope_of(
                "bulk", _BULK_CLIENT, sequence, sequence, 0, BULK.name)
            shard_client.scatter_add(connection, envelope, BULK, rows, _PRESS_SECONDS)

    def lives(self) -> int:
        """How often the shard should have been started before the end."""
        return 1

    def start(self) -> None:
        super().start()
        self.cluster.register_model(shard_client.model_spec(BULK.name, BULK))

    def _verify_newest(self) -> None:
        """While the disk is full, the newest committed checkpoint reads as it was written."""
        directory = self.directory / f"verify-{time.monotonic_ns()}"
        directory.mkdir()
        verify = processes.Process("dslide", ["checkpoint", "verify", "--cluster",
                                              self.cluster.coordinator_address], directory)
        try:
            finished = verify.finish()
            if finished.code != 0:
                self.problems.append(f"the newest checkpoint is not whole: {finished}")
        finally:
            verify.kill()

    def finish(self) -> Result:
        for _ in range(self._rounds):
            self._supervise(1.0)
            self.play_round()
        shard = self.cluster.shards[0]
        if shard.lives != self.lives():
            self.problems.append(f"{shard.name} was started {shard.lives} times")
        if self.logged:
            self._supervise(1.0)
            shard.kill()
            shard.start()
        return super().finish()

    def summarize(self, result: Result, _history: list[Event]) -> Result:
        if not self.logged and self.applied_while_full == 0:
            result["violations"]["stood_still"] = 1
        return result | {
            "rounds": len(self.resumed),
            "resume_max_seconds": round(max(self.resumed, default=0.0), 2),
            "refused_while_full": self.refused, "applied_while_full": self.applied_while_full}


class ReadOnlyLoop(DiskFullLoop):
    """The same with a disk that nobody can write to for a while."""

    DISK = ReadOnlyDisk

    def __init__(self, settings: kill_loop.Settings, directory: pathlib.Path, rounds: int) -> None:
        super().__init__(settings, directory, rounds)
        self._held_down = False  # shard 0 must not be started by itself
        self.starts_refused = 0

    def lives(self) -> int:
        # In each round one on the read-only disk, and one afterwards.
        return 1 + 2 * self._rounds if self.logged else 1

    def _supervise(self, seconds: float, gone: Member | None = None) -> None:
        super()._supervise(seconds, gone or (self.cluster.shards[0] if self._held_down else None))

    def play_round(self) -> None:
        """Makes the disk read-only, and writable again."""
        self._recent.clear()
        if not self.logged:
            self._await(self._committed, "a first cluster checkpoint")
        words, broken_at = len(self.cluster.coordinator.process.stderr), time.monotonic_ns()
        self._held_down = self.logged
        self.disk.break_down()
        if self.logged:
            self._await_failed_log()
        else:
            self._await(lambda: _FAILED in self.cluster.coordinator.process.stderr[words:],
                        "somebody notices that the disk is read-only")
            self._supervise(FULL_SECONDS)
            self._verify_newest()
        self.applied_while_full += len(self._since("applied", broken_at))
        self.refused += len(self._since("refused", broken_at))
        committed = len(self._committed())
        self.disk.heal()
        healed_at = time.monotonic_ns()
        if self.logged:
            self.cluster.shards[0].start()
            self._held_down = False
        self._await_work(healed_at, committed)

    def _await_failed_log(self) -> None:
        """The shard ends as documented; and so does one that is started on the read-only disk."""
        self._await_end(1, "the command log has failed")
        self.cluster.shards[0].start()
        self._await_end(_DATA_DIR_EXIT, "")
        self.starts_refused += 1

    def _await_end(self, wanted: int, words: str) -> None:
        shard = self.cluster.shards[0]
        if not self._await(lambda: not shard.running(), f"the end of {shard.name}"):
            shard.kill()
            return
        said = shard.process.stderr
        code = shard.collect_end()
        if code != wanted or words not in said:
            self.problems.append(f"{shard.name} ended with {code} on a read-only disk: {said}")

    def summarize(self, result: Result, history: list[Event]) -> Result:
        return super().summarize(result, history) | {"starts_refused": self.starts_refused}


FAULTS = {"full": DiskFullLoop, "read-only": ReadOnlyLoop}


def run(seed: int, volume: str, rounds: int, fault: str = "full") -> Result:
    """The result of some rounds, with what was `wrong`. CannotMount where that is so."""
    settings, result, wrong = kill_loop.Settings(seed, VOLUMES[volume], rate=60.0), {}, list[str]()
    with kept("disk", wrong) as directory:
        result = kill_loop.run(settings, directory, loop_class=functools.partial(
            FAULTS[fault], rounds=rounds))
        wrong += kill_loop.broken(result)
    return result | {"wrong": wrong}
