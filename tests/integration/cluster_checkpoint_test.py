"""Checkpoints of a cluster: taken while a trainer works, gone back to after a crash, and copied, so
that shards that lose their disks come back as they were.
"""

from __future__ import annotations

import pathlib
import re
import shutil
import signal
from typing import Any

import failures_test
import processes
import shard_client
from grpc_client import Connection
from processes import Finished, Process, assert_ended, metric, wait_until

SHARDS = 2
STEPS = 600


class CheckpointCase(failures_test.FailureTest):
    """A cluster whose parts keep their addresses and directories."""

    def start_parts_with(self, *coordinator_arguments: object) -> None:
        self.coordinator_address = f"127.0.0.1:{processes.free_port()}"
        self.start_coordinator_with(*coordinator_arguments)
        self.shard_arguments = [
            ["--listen", f"127.0.0.1:{processes.free_port()}", "--shard-id", number,
             "--data-dir", self.directory / f"shard-{number}"] for number in range(SHARDS)]
        self.shards = [self.start_shard(self.coordinator, *arguments)
                       for arguments in self.shard_arguments]

    def start_coordinator_with(self, *arguments: object) -> None:
        self.coordinator = self.start_coordinator(
            "--listen", self.coordinator_address, "--data-dir", self.directory / "coordinator",
            *arguments, shards=SHARDS)

    def train(self, *arguments: object) -> Process:
        return self.start(
            "dslide", "train", "-o", "json", "--cluster", self.coordinator.address,
            "--data", self.data, "--epochs", 100000, "--steps", STEPS,
            "--validation-fraction", 0, "--admin", "127.0.0.1:0", *arguments)

    def checkpoint(self, *arguments: object, code: int = failures_test.OK) -> Any:
        finished = self.start("dslide", "checkpoint", *arguments, "--cluster",
                              self.coordinator.address, "-o", "json").finish()
        assert_ended(finished, code)
        return finished.json() if code == failures_test.OK else finished

    def restart(self, number: int) -> None:
        self.shards[number].process.kill()
        self.shards[number] = self.start_shard(self.coordinator, *self.shard_arguments[number])

    def held(self) -> list[Any]:
        """What each shard holds: counts of updates and digests of rows and optimizer states."""
        found = []
        for shard in self.shards:
            with Connection(shard.address) as connection:
                found.append(shard_client.describe_model(connection, "model"))
        return found

    def damage(self, shard: int, below: pathlib.Path | None = None) -> pathlib.Path:
        """Flips a bit in the middle of a shard's largest file of rows; that file."""
        parts = (below or self.directory) / f"shard-{shard}"
        largest = max(parts.rglob("*.sst"), key=lambda path: path.stat().st_size)
        content = bytearray(largest.read_bytes())
        content[len(content) // 2] ^= 1
        largest.write_bytes(content)
        return largest


class ClusterCheckpointTest(CheckpointCase):
    def finish(self, trainer: Process) -> Finished:
        finished = trainer.finish()
        assert_ended(finished, failures_test.OK)
        assert finished.json()["steps"] == STEPS, finished
        return finished

    def test_a_crashed_shard_takes_the_cluster_back_and_training_goes_on(self) -> None:
        self.start_parts_with("--checkpoint-interval", "off")
        trainer = self.train()
        self.wait_for_steps(trainer, 51)
        taken = self.checkpoint("create")
        assert (taken["checkpoint_id"], taken["evicted"], taken["clients"]) == (1, 0, 1)
        assert taken["rows"] > 0
        self.restart(1)
        finished = self.finish(trainer)
        assert "taken back to a checkpoint" in finished.stderr
        # Nothing began afresh.
        assert metric(self.coordinator.admin, "dslide_coordinator_models_recreated_total") == 0

    def test_a_shard_with_the_rows_of_an_earlier_stop_goes_back_too(self) -> None:
        self.start_parts_with("--checkpoint-interval", "off")
        self.train_model("--cluster", self.coordinator.address)
        assert_ended(self.shards[1].process.stop(signal.SIGTERM), failures_test.OK)
        self.shards[1] = self.start_shard(self.coordinator, *self.shard_arguments[1])
        trainer = self.train("--job", "second")
        self.wait_for_steps(trainer, 51)
        assert self.checkpoint("create")["evicted"] == 0
        self.restart(1)
        finished = self.finish(trainer)
        assert "taken back to a checkpoint" in finished.stderr

    def test_checkpoints_by_schedule_are_listed_checked_and_restored(self) -> None:
        self.start_parts_with("--checkpoint-interval", "1s", "--checkpoint-keep", 2)
        trainer = self.train()
        wait_until(lambda: len(self.checkpoint("list")["checkpoints"]) == 2,
                   lambda: "two checkpoints", alive=[trainer])
        self.finish(trainer)
        # No further one comes from here on.
        assert_ended(self.coordinator.process.stop(), failures_test.OK)
        self.start_coordinator_with("--checkpoint-interval", "off", "--checkpoint-keep", 2)
        newest = self.checkpoint("show")["checkpoint_id"]
        assert self.checkpoint("verify") == {"checkpoint_id": newest, "verified": True}
        assert self.checkpoint("restore", "--dry-run") == {
            "checkpoint_id": newest, "restored": False}
        self.checkpoint("restore", code=failures_test.USAGE)
        assert self.checkpoint("restore", str(newest), "--yes") == {
            "checkpoint_id": newest, "restored": True, "skipped": []}
        assert len(self.checkpoint("prune", "--keep", 1)["removed"]) == 1

    def test_an_increment_is_shown_copied_and_restored(self) -> None:
        self.start_parts_with("--checkpoint-interval", "off")
        self.train_model("--cluster", self.coordinator.address)
        full, increment = self.checkpoint("create"), self.checkpoint("create")
        assert (full["kind"], full["written_bytes"]) == ("full", full["bytes"])
        assert increment["kind"] == "incremental"
        assert increment["written_bytes"] < full["bytes"] / 2
        assert [shard["base_checkpoint_id"] for shard in increment["shards"]] == [1] * SHARDS
        listed = self.checkpoint("list")["checkpoints"]
        assert [entry["kind"] for entry in listed] == ["incremental", "full"]
        before = self.precision("--cluster", self.coordinator.address)
        copies = self.directory / "copies"
        self.checkpoint("copy", "--to", copies)
        for path in copies.rglob("*"):
            assert path.is_dir() or path.stat().st_nlink == 1, path
        assert self.checkpoint("prune", "--keep", 1)["removed"] == [1]
        assert self.checkpoint("verify") == {"checkpoint_id": 2, "verified": True}
        shutil.rmtree(self.directory / "shard-1" / "images" / f"checkpoint-{2:020}")
        assert self.checkpoint("restore", "--from", copies, "--yes")["checkpoint_id"] == 2
        assert self.precision("--cluster", self.coordinator.address) == before

    def test_a_damaged_part_is_named_and_nothing_is_restored(self) -> None:
        self.start_parts_with("--checkpoint-interval", "off")
        self.finish(self.train())
        self.checkpoint("create")
        rows = self.damage(1)
        for command in (["verify"], ["restore", "--yes"]):
            refused = self.checkpoint(*command, code=failures_test.DATA_LOSS)
            assert re.search(rf"shard 1 .*{rows.name} does not have its checksum", refused.stderr)
        # The cluster serves on with what it has.
        self.precision("--cluster", self.coordinator.address)


class CheckpointedCase(CheckpointCase):
    """Shards with rows that were trained, and one cluster checkpoint of them."""

    scrub_interval = "off"

    def set_up(self) -> None:
        super().set_up()
        self.copies = self.directory / "copies"
        self.start_all()
        self.train_model("--cluster", self.coordinator.address)
        self.checkpoint("create")
        self.written = self.held()

    def start_all(self) -> None:
        self.start_parts_with("--checkpoint-interval", "off", "--checkpoint-scrub-interval",
                              self.scrub_interval)

    def doctor(self, *arguments: object, code: int) -> str:
        examined = self.run_dslide("doctor", *arguments)
        assert_ended(examined, code)
        return examined.stdout


class LostDiskTest(CheckpointedCase):
    def lose(self, number: int) -> None:
        self.shards[number].process.kill()
        shutil.rmtree(self.directory / f"shard-{number}")

    def test_a_shard_whose_disk_is_gone_gets_its_part_from_a_copy(self) -> None:
        copied = self.checkpoint("copy", "--to", self.copies)
        assert copied["checkpoint_id"] == 1
        assert copied["files"] > 4
        assert copied["bytes"] > 1000
        # A second one moves nothing.
        assert self.checkpoint("copy", "--to", self.copies)["files"] == 0
        self.doctor("--data-dir", self.copies, code=failures_test.OK)
        self.lose(1)
        self.restart(1)
        # Without the copy there is nothing to go back to.
        refused = self.checkpoint("restore", "--yes", code=failures_test.USAGE)
        assert "shard 1" in refused.stderr
        assert self.checkpoint("restore", "--from", self.copies, "--dry-run") == {
            "checkpoint_id": 1, "restored": False}
        restored = self.checkpoint("restore", "--from", self.copies, "--yes")
        assert (restored["checkpoint_id"], restored["restored"]) == (1, True)
        assert self.held() == self.written
        assert self.checkpoint("verify") == {"checkpoint_id": 1, "verified": True}
        assert metric(self.coordinator.admin, "dslide_coordinator_models_recreated_total") == 0
        self.train_model("--cluster", self.coordinator.address)

    def test_as_many_copies_stay_as_are_wanted(self) -> None:
        def kept() -> list[str]:
            return sorted(path.name for path in self.copies.iterdir())

        names = [f"checkpoint-{number:020}" for number in range(5)]
        assert self.checkpoint("copy", "--to", self.copies)["removed"] == []
        for number, removed in ((2, []), (3, [1])):
            self.checkpoint("create")
            copied = self.checkpoint("copy", "--to", self.copies, "--keep", 2)
            assert (copied["checkpoint_id"], copied["removed"]) == (number, removed)
        assert kept() == names[2:4]
        # What is damaged is nobody's to remove, and the last that was made is never removed.
        (self.copies / names[3] / "MANIFEST").write_text("{")
        self.checkpoint("create")
        assert self.checkpoint("copy", "--to", self.copies, "--keep", 1)["removed"] == [2]
        assert kept() == names[3:]

    def test_a_cluster_whose_disks_are_all_gone_comes_back(self) -> None:
        self.checkpoint("copy", "--to", self.copies)
        for number in range(SHARDS):
            self.lose(number)
        self.coordinator.process.kill()
        shutil.rmtree(self.directory / "coordinator")
        self.start_all()
        self.checkpoint("restore", "--from", self.copies, "--yes")
        assert self.held() == self.written
        # The next checkpoint does not take the number of the one that came back.
        assert self.checkpoint("create")["checkpoint_id"] == 2

    def test_a_damaged_copy_changes_nothing(self) -> None:
        path = self.checkpoint("copy", "--to", self.copies)["path"]
        spoilt = self.damage(1, below=self.copies / path)
        self.lose(1)
        self.restart(1)
        for command in ("--dry-run", "--yes"):
            refused = self.checkpoint("restore", "--from", self.copies, command,
                                      code=failures_test.DATA_LOSS)
            assert "does not have its checksum" in refused.stderr
        said = self.doctor("--data-dir", self.copies, code=failures_test.DATA_LOSS)
        assert spoilt.name in said


class ScrubTest(CheckpointedCase):
    scrub_interval = "1s"

    def test_damage_is_found_by_itself_and_an_older_one_is_taken(self) -> None:
        self.checkpoint("create")
        part = self.directory / "shard-1" / "images" / f"checkpoint-{2:020}"
        (part / "state").write_bytes((part / "state").read_bytes()[:-1])
        wait_until(lambda: metric(self.coordinator.admin,
                                  "dslide_coordinator_checkpoints_damaged") == 1,
                   lambda: "that the damage is found", alive=[self.coordinator.process])
        assert "a cluster checkpoint is damaged" in self.coordinator.process.stderr
        listed = self.checkpoint("list")["checkpoints"]
        assert [bool(entry["damage"]) for entry in listed] == [True, False]
        said = self.doctor("--cluster", self.coordinator.address, code=failures_test.DATA_LOSS)
        assert "cluster checkpoint 2" in said
        restored = self.checkpoint("restore", "--yes")
        assert restored == {"checkpoint_id": 1, "restored": True, "skipped": [2]}
        assert self.held() == self.written
