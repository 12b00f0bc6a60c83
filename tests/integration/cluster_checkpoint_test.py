"""Checkpoints of a cluster: taken while a trainer works, and gone back to after a crash."""

from __future__ import annotations

import pathlib
import re
import shutil
import signal
from typing import Any

import failures_test
import processes
from processes import Finished, Process, assert_ended, metric, wait_until

SHARDS = 2
STEPS = 600


class ClusterCheckpointTest(failures_test.FailureTest):
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
        self.shards[1].process.kill()
        self.shards[1] = self.start_shard(self.coordinator, *self.shard_arguments[1])
        finished = self.finish(trainer)
        assert "taken back to a checkpoint" in finished.stderr
        # Nothing began afresh.
        assert metric(self.coordinator.admin, "dslide_coordinator_models_recreated_total") == 0

    def test_a_shard_with_the_rows_of_an_earlier_stop_goes_back_too(self) -> None:
        self.start_parts_with("--checkpoint-interval", "off")
        self.finish(self.train())
        assert_ended(self.shards[1].process.stop(signal.SIGTERM), failures_test.OK)
        self.shards[1] = self.start_shard(self.coordinator, *self.shard_arguments[1])
        trainer = self.train("--job", "second")
        self.wait_for_steps(trainer, 51)
        assert self.checkpoint("create")["evicted"] == 0
        self.shards[1].process.kill()
        self.shards[1] = self.start_shard(self.coordinator, *self.shard_arguments[1])
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
        self.finish(self.train())
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
        parts = self.directory / "shard-1" / "images"
        rows = max(pathlib.Path(parts).rglob("*.sst"), key=lambda path: path.stat().st_size)
        content = bytearray(rows.read_bytes())
        content[len(content) // 2] ^= 1
        rows.write_bytes(content)
        for command in (["verify"], ["restore", "--yes"]):
            refused = self.checkpoint(*command, code=failures_test.DATA_LOSS)
            assert re.search(rf"shard 1 .*{rows.name} does not have its checksum", refused.stderr)
        # The cluster serves on with what it has.
        self.precision("--cluster", self.coordinator.address)
