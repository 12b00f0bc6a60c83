"""Shards that keep a command log are killed while they train, and nothing that they confirmed is lost.

usage: shard_crash_test.py --bin-dir DIR [unittest arguments]

DSLIDE_TEST_SEED sets the seed of the moments (printed by every test); DSLIDE_TEST_KILLS how many.
"""

import os
import random
import signal
import subprocess
import time

import failures_test
import processes
from processes import metric, wait_until

KILLS = int(os.environ.get("DSLIDE_TEST_KILLS", "5"))


class LoggingShard:
    """A shard with a data directory, an address that stays, and a process that does not."""

    def __init__(self, test, coordinator, number, *arguments):
        self._test = test
        self._arguments = [
            "--listen", f"127.0.0.1:{processes.free_port()}", "--shard-id", number,
            "--data-dir", test.directory / f"shard-{number}", *arguments]
        self.coordinator = coordinator
        self.acked_loss = 0
        self.start()

    def start(self):
        self.server = self._test.start_shard(self.coordinator, *self._arguments)

    def kill(self):
        self.note_loss()
        self.server.process.kill()

    def note_loss(self):
        self.acked_loss += metric(self.server.admin, "dslide_shard_acked_loss_total") or 0

    def digest(self):
        """Of the state that the process found on its disk."""
        return self.server.process.wait_for_stderr(r" state restored .*digest=(\w+)").group(1)


class ShardTrainingTest(failures_test.FailureTest):
    """A training over shards that may be stopped and started, and what they hold after it."""

    SHARDS = 2
    STEPS = 400

    def setUp(self):
        super().setUp()
        self.seed = int(os.environ.get("DSLIDE_TEST_SEED", time.time_ns() % 1_000_000))
        print(f"{self.id()}: DSLIDE_TEST_SEED={self.seed}", flush=True)
        self.random = random.Random(self.seed)

    def start_parts_with(self, *shard_arguments):
        self.coordinator = self.start_coordinator(shards=self.SHARDS)
        self.shards = [LoggingShard(self, self.coordinator, number, *shard_arguments)
                       for number in range(self.SHARDS)]

    def train(self):
        return self.start(
            "dslide", "train", "-o", "json", "--cluster", self.coordinator.address,
            "--data", self.data, "--epochs", 100000, "--steps", self.STEPS, "--in-flight", 1,
            "--seed", 5, "--validation-fraction", 0, "--admin", "127.0.0.1:0")

    def finish(self, trainer):
        finished = trainer.finish()
        self.assert_ended(finished, failures_test.OK)
        self.assertEqual(finished.json()["steps"], self.STEPS, finished)
        return finished.json()

    def restarted_digests(self):
        """Of all shards, after one more crash of each."""
        for shard in self.shards:
            shard.kill()
            shard.start()
        return [shard.digest() for shard in self.shards]

    def stop_parts(self):
        for shard in self.shards:
            self.assert_ended(shard.server.process.stop(), failures_test.OK, "image written")
        self.coordinator.process.stop()

    def keep_aside(self, name):
        """The shards' directories get other names: what starts next starts without rows."""
        for number in range(self.SHARDS):
            os.rename(self.directory / f"shard-{number}", self.directory / f"{name}-{number}")


class ShardCrashTest(ShardTrainingTest):
    def kill_while_training(self, trainer):
        for kill in range(KILLS):
            # Spread over its first half, at moments that nobody has chosen. What is left is time for
            # this process to see the last one, however little it gets.
            self.wait_for_steps(trainer, self.STEPS * (kill + self.random.random()) / (2 * KILLS))
            shard = self.random.choice(self.shards)
            shard.kill()
            time.sleep(self.random.random() / 4)
            shard.start()

    def assert_survives(self, *shard_arguments):
        self.start_parts_with(*shard_arguments)
        trainer = self.train()
        self.finish(trainer)
        undisturbed = self.restarted_digests()
        self.stop_parts()
        self.keep_aside("undisturbed")

        self.start_parts_with(*shard_arguments)
        trainer = self.train()
        self.kill_while_training(trainer)
        self.finish(trainer)
        self.assertEqual(self.restarted_digests(), undisturbed)
        for shard in self.shards:
            shard.note_loss()
            self.assertEqual(shard.acked_loss, 0)
        # A clean stop leaves an image that has everything.
        self.stop_parts()
        self.coordinator = self.start_coordinator(shards=self.SHARDS)
        for shard in self.shards:
            shard.coordinator = self.coordinator
            shard.start()
            self.assertRegex(shard.server.process.stderr, r" state restored .*replayed=0 ")

    def test_log_mode_loses_nothing_and_applies_nothing_twice(self):
        self.assert_survives("--durability", "log")

    def test_log_periodic_mode_survives_crashes_of_the_process(self):
        self.assert_survives("--durability", "log-periodic", "--log-sync-interval", "10s")


class FullDiskTest(failures_test.FailureTest):
    """Needs the right to mount a small file system."""

    def mount(self, *options):
        return subprocess.run(["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", self.disk],
                              capture_output=True, check=False).returncode == 0

    def setUp(self):
        super().setUp()
        self.disk = self.directory / "disk"
        self.disk.mkdir()
        if not self.mount("size=48m"):
            self.skipTest("tmpfs cannot be mounted here")
        # Lazily: the shard's files are open until it is killed.
        self.addCleanup(subprocess.run, ["umount", "-l", self.disk], check=False)

    def test_updates_wait_for_space_and_nothing_is_lost(self):
        coordinator = self.start_coordinator(shards=1)
        rows = ["--data-dir", self.disk / "rows", "--durability", "log"]
        shard = self.start_shard(coordinator, *rows)
        trainer = self.start_training("--cluster", coordinator.address)
        refused = 'dslide_shard_refused_requests_total{reason="DISK_FULL"}'
        wait_until(lambda: metric(shard.admin, refused), lambda: "a full disk",
                   alive=[shard.process, trainer])
        before = self.steps(trainer)
        self.assertTrue(self.mount("remount", "size=1g"))
        self.wait_for_steps(trainer, before + 6)
        trainer.kill()
        shard.process.kill()
        shard = self.start_shard(coordinator, *rows)
        self.precision("--cluster", coordinator.address)
        self.assertEqual(metric(shard.admin, "dslide_shard_acked_loss_total") or 0, 0)


class DamagedLogTest(failures_test.FailureTest):
    def setUp(self):
        super().setUp()
        self.coordinator = self.start_coordinator(shards=1)
        self.rows = ["--data-dir", self.directory / "rows"]
        shard = self.start_shard(self.coordinator, *self.rows, "--durability", "log")
        self.train_model("--cluster", self.coordinator.address)
        shard.process.kill()

    def refuse(self, *patterns, mode="log"):
        shard = self.start("dslide-shard", "--coordinator", self.coordinator.address, *self.rows,
                           "--durability", mode)
        self.assert_ended(shard.finish(),
                          failures_test.SERVER_DATA_DIR, *patterns)

    def inspect(self, code, *patterns):
        finished = self.run_dslide("log", "inspect", self.directory / "rows", "-o", "json")
        self.assert_ended(finished, code, *patterns)
        return finished

    def test_inspect_says_what_is_there(self):
        log = self.inspect(failures_test.OK).json()
        self.assertEqual(log["first"], 1)
        self.assertEqual(log["last"], log["records"])
        self.assertEqual(log["high_water"], log["last"])
        self.assertFalse(log["torn"])
        self.assertGreater(log["kinds"]["step"], 20)
        self.assertEqual(log["kinds"]["create-model"], 1)
        shard = self.start_shard(self.coordinator, *self.rows, "--durability", "log")
        self.inspect(failures_test.FAILURE, "a shard uses .*: stop it, or inspect a copy")
        shard.process.kill()
        nothing = self.run_dslide("log", "inspect", self.directory)
        self.assert_ended(nothing, failures_test.USAGE, "there is no command log in ")

    def test_a_damaged_log_stops_the_start_in_every_mode(self):
        records = self.directory / "rows" / "command_log" / "records"
        wal = max(records.glob("*.log"), key=lambda file: file.stat().st_size)
        content = bytearray(wal.read_bytes())
        content[len(content) // 2] ^= 1
        wal.write_bytes(content)
        self.inspect(failures_test.DATA_LOSS, r"command_log: the log ends at record \d+, but ")
        for mode in ("log", "log-periodic", "checkpoint"):
            self.refuse(r"the log ends at record \d+, but records \d+ to \d+ had been made durable",
                        r"restore the directory from a copy", mode=mode)

    def test_a_lost_log_is_not_replaced_by_fresh_rows(self):
        for part in ("records", "high-water", "CURRENT"):
            path = self.directory / "rows" / "command_log" / part
            hidden = path.with_name("hidden")
            path.rename(hidden)
            self.refuse(r"the command log or its images are damaged: ")
            hidden.rename(path)

    def test_a_torn_end_that_nobody_was_promised_is_cut_off(self):
        records = self.directory / "rows" / "command_log" / "records"
        wal = max(records.glob("*.log"), key=lambda file: file.stat().st_size)
        # The beginning of a record that a crash has cut.
        with open(wal, "ab") as file:
            file.write(b"\x12\x34\x56\x78\xff\x00\x01 and a part of it")
        shard = self.start_shard(self.coordinator, *self.rows, "--durability", "log")
        self.assertRegex(shard.process.stderr, r"cutting off the torn end of the command log")
        self.precision("--cluster", self.coordinator.address)

    def test_mode_checkpoint_takes_the_log_over(self):
        shard = self.start_shard(self.coordinator, *self.rows)
        self.assertRegex(shard.process.stderr, r"written as checkpoints, and the log removed")
        before = self.precision("--cluster", self.coordinator.address)
        self.assertFalse((self.directory / "rows" / "command_log").exists())
        self.assert_ended(shard.process.stop(signal.SIGTERM), failures_test.OK)
        self.start_shard(self.coordinator, *self.rows, "--durability", "log")
        self.assertEqual(self.precision("--cluster", self.coordinator.address), before)


if __name__ == "__main__":
    processes.main()
