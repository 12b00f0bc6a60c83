"""Shards with a command log are killed while they train; nothing that they confirmed is lost.

DSLIDE_TEST_SEED sets the seed of the moments (printed by every test); DSLIDE_TEST_KILLS how many.
"""

from __future__ import annotations

import os
import random
import re
import signal
import time
from collections.abc import Sequence
from typing import Any

import failures_test
import processes
from processes import Finished, Process, Server, assert_ended, metric

KILLS = int(os.environ.get("DSLIDE_TEST_KILLS", "5"))


class LoggingShard:
    """A shard with a data directory, an address that stays, and a process that does not."""

    def __init__(self, test: failures_test.FailureTest, coordinator: Server, number: int,
                 *arguments: object) -> None:
        self._test = test
        self._arguments = [
            "--listen", f"127.0.0.1:{processes.free_port()}", "--shard-id", number,
            "--data-dir", test.directory / f"shard-{number}", *arguments]
        self.coordinator = coordinator
        self.acked_loss = 0.0
        self.start()

    def start(self) -> None:
        self.server = self._test.start_shard(self.coordinator, *self._arguments)

    def move(self) -> None:
        """Starts it at another address."""
        self._arguments[1] = f"127.0.0.1:{processes.free_port()}"
        self.start()

    def kill(self) -> None:
        self.note_loss()
        self.server.process.kill()

    def crash(self) -> None:
        self.kill()
        self.start()

    def note_loss(self) -> None:
        self.acked_loss += metric(self.server.admin, "dslide_shard_acked_loss_total") or 0

    def digest(self) -> str:
        """Of the state that the process found on its disk."""
        return str(self.server.process.wait_for_stderr(r" state restored .*digest=(\w+)")[1])


class ShardTrainingTest(failures_test.FailureTest):
    """A training over shards that may be stopped and started, and what they hold after it."""

    SHARDS = 2
    STEPS = 240

    def set_up(self) -> None:
        super().set_up()
        self.seed = int(os.environ.get("DSLIDE_TEST_SEED", time.time_ns() % 1_000_000))
        print(f"{type(self).__name__}: DSLIDE_TEST_SEED={self.seed}", flush=True)
        self.random = random.Random(self.seed)

    def start_parts_with(self, *shard_arguments: object, of_coordinator: Sequence[object] = (),
                         shards: int | None = None) -> None:
        self.coordinator = self.start_coordinator(*of_coordinator, shards=shards or self.SHARDS)
        self.shards = [LoggingShard(self, self.coordinator, number, *shard_arguments)
                       for number in range(shards or self.SHARDS)]

    def command(self, *arguments: object) -> Finished:
        """Of `dslide`, about the cluster; its result is JSON."""
        return self.run_dslide(*arguments, "-q", "-o", "json", "--cluster",
                               self.coordinator.address)

    def train(self) -> Process:
        return self.start(
            "dslide", "train", "-o", "json", "--cluster", self.coordinator.address,
            "--data", self.data, "--epochs", 100000, "--steps", self.STEPS, "--in-flight", 1,
            "--seed", 5, "--validation-fraction", 0, "--admin", "127.0.0.1:0")

    def finish(self, trainer: Process) -> Any:
        finished = trainer.finish()
        assert_ended(finished, failures_test.OK)
        assert finished.json()["steps"] == self.STEPS, finished
        return finished.json()

    def restarted_digests(self) -> Any:
        """Of all shards, after one more crash of each."""
        for shard in self.shards:
            shard.crash()
        return [shard.digest() for shard in self.shards]

    def stop_parts(self) -> None:
        for shard in self.shards:
            assert_ended(shard.server.process.stop(), failures_test.OK, "image written")
        self.coordinator.process.stop()

    def keep_aside(self, name: str) -> None:
        """The shards' directories get other names: what starts next starts without rows."""
        for number, _ in enumerate(self.shards):
            os.rename(self.directory / f"shard-{number}", self.directory / f"{name}-{number}")


class ShardCrashTest(ShardTrainingTest):
    def kill_while_training(self, trainer: Process) -> None:
        for kill in range(KILLS):
            # Spread over its first half, at moments that nobody has chosen. The rest is time for
            # this process to see the last one, however little it gets.
            self.wait_for_steps(trainer, self.STEPS * (kill + self.random.random()) / (2 * KILLS))
            shard = self.random.choice(self.shards)
            shard.kill()
            time.sleep(self.random.random() / 4)
            shard.start()

    def test_neither_mode_of_the_log_loses_anything_or_applies_it_twice(self) -> None:
        self.start_parts_with("--durability", "log")
        self.finish(self.train())
        undisturbed = self.restarted_digests()
        self.stop_parts()
        for mode in (("log",), ("log-periodic", "--log-sync-interval", "10s")):
            self.keep_aside(f"before-{mode[0]}")
            self.start_parts_with("--durability", *mode)
            trainer = self.train()
            self.kill_while_training(trainer)
            self.finish(trainer)
            assert self.restarted_digests() == undisturbed, mode
            for shard in self.shards:
                shard.note_loss()
                assert shard.acked_loss == 0, mode
            # A clean stop leaves an image that has everything.
            self.stop_parts()
            self.coordinator = self.start_coordinator(shards=self.SHARDS)
            for shard in self.shards:
                shard.coordinator = self.coordinator
                shard.start()
                assert re.search(r" state restored .*replayed=0 ", shard.server.process.stderr)
            self.stop_parts()


class DamagedLogTest(failures_test.FailureTest):
    def set_up(self) -> None:
        super().set_up()
        self.coordinator = self.start_coordinator(shards=1)
        self.rows = ["--data-dir", self.directory / "rows"]
        shard = self.start_shard(self.coordinator, *self.rows, "--durability", "log")
        self.train_model("--cluster", self.coordinator.address)
        shard.process.kill()

    def refuse(self, *patterns: str, mode: str = "log") -> None:
        shard = self.start("dslide-shard", "--coordinator", self.coordinator.address, *self.rows,
                           "--durability", mode)
        assert_ended(shard.finish(),
                     failures_test.SERVER_DATA_DIR, *patterns)

    def inspect(self, code: int, *patterns: str) -> Any:
        finished = self.run_dslide("log", "inspect", self.directory / "rows", "-o", "json")
        assert_ended(finished, code, *patterns)
        return finished

    def test_inspect_says_what_is_there(self) -> None:
        log = self.inspect(failures_test.OK).json()
        assert log["first"] == 1
        assert log["last"] == log["records"]
        assert log["high_water"] == log["last"]
        assert not log["torn"]
        assert log["kinds"]["step"] > 20
        assert log["kinds"]["create-model"] == 1
        shard = self.start_shard(self.coordinator, *self.rows, "--durability", "log")
        self.inspect(failures_test.FAILURE, "a shard uses .*: stop it, or inspect a copy")
        shard.process.kill()
        nothing = self.run_dslide("log", "inspect", self.directory)
        assert_ended(nothing, failures_test.USAGE, "there is no command log in ")

    def test_a_damaged_log_stops_the_start_in_every_mode(self) -> None:
        records = self.directory / "rows" / "command_log" / "records"
        wal = max(records.glob("*.log"), key=lambda file: file.stat().st_size)
        content = bytearray(wal.read_bytes())
        content[len(content) // 2] ^= 1
        wal.write_bytes(content)
        self.inspect(failures_test.DATA_LOSS, r"command_log: the log ends at record \d+, but ")
        for mode in ("log", "log-periodic", "checkpoint"):
            self.refuse(r"the log ends at record \d+, but records \d+ to \d+ had been made durable",
                        r"restore the directory from a copy", mode=mode)

    def test_a_lost_log_is_not_replaced_by_fresh_rows(self) -> None:
        for part in ("records", "high-water", "images"):
            path = self.directory / "rows" / "command_log" / part
            hidden = path.with_name("hidden")
            path.rename(hidden)
            self.refuse(r"the command log or its images are damaged: ")
            hidden.rename(path)

    def test_mode_checkpoint_takes_the_log_over(self) -> None:
        shard = self.start_shard(self.coordinator, *self.rows)
        assert re.search(r"written as checkpoints, and the log removed", shard.process.stderr)
        before = self.precision("--cluster", self.coordinator.address)
        assert not (self.directory / "rows" / "command_log").exists()
        assert_ended(shard.process.stop(signal.SIGTERM), failures_test.OK)
        self.start_shard(self.coordinator, *self.rows, "--durability", "log")
        assert self.precision("--cluster", self.coordinator.address) == before
