"""A shard, and then a whole cluster, loses its disk, and comes back from a copy as it was."""

from __future__ import annotations

import shutil
from typing import Any

import corruption_loop
import failures_test
import grpc_client
from processes import Server, assert_ended, metric, wait_until

SHARDS = 2


class CheckpointedCluster(failures_test.FailureTest):
    """Shards with rows that were trained, and one cluster checkpoint of them."""

    scrub_interval = "off"

    def start_all(self) -> None:
        self.coordinator = self.start_coordinator(
            "--data-dir", self.directory / "coordinator", "--checkpoint-interval", "off",
            "--checkpoint-scrub-interval", self.scrub_interval, shards=SHARDS)
        self.shards = [self.start_one(number) for number in range(SHARDS)]

    def start_one(self, number: int) -> Server:
        return self.start_shard(self.coordinator, "--shard-id", number, "--data-dir",
                                self.directory / f"shard-{number}")

    def dslide(self, *command: object, code: int = failures_test.OK) -> Any:
        finished = self.start("dslide", *command, "--cluster", self.coordinator.address,
                              "-o", "json").finish()
        assert_ended(finished, code)
        return finished.json() if code == failures_test.OK else finished

    def fingerprints(self) -> list[Any]:
        """All that clients can see of the rows of every shard, and the shards' own digests."""
        found = []
        for number, shard in enumerate(self.shards):
            with grpc_client.Connection(shard.address) as connection:
                found.append(corruption_loop.shard_fingerprint(connection, number, SHARDS))
        return found

    def train(self) -> None:
        finished = self.run_dslide(
            "train", "--data", self.data, "--steps", 20, "--validation-fraction", 0,
            "--cluster", self.coordinator.address)
        assert_ended(finished, failures_test.OK)

    def set_up(self) -> None:
        super().set_up()
        self.copies = self.directory / "copies"
        self.start_all()
        self.train()
        self.dslide("checkpoint", "create")
        self.written = self.fingerprints()


class LostDiskTest(CheckpointedCluster):
    def copy(self) -> Any:
        return self.dslide("checkpoint", "copy", "--to", self.copies)

    def lose(self, number: int) -> None:
        self.shards[number].process.kill()
        shutil.rmtree(self.directory / f"shard-{number}")

    def test_a_shard_whose_disk_is_gone_gets_its_part_from_a_copy(self) -> None:
        copied = self.copy()
        assert copied["checkpoint_id"] == 1
        assert copied["files"] > 4
        assert copied["bytes"] > 1000
        # A second one moves nothing.
        assert self.copy()["files"] == 0
        examined = self.start("dslide", "doctor", "--data-dir", self.copies).finish()
        assert_ended(examined, failures_test.OK)
        self.lose(1)
        self.shards[1] = self.start_one(1)
        # Without the copy there is nothing to go back to.
        refused = self.dslide("checkpoint", "restore", "--yes", code=failures_test.USAGE)
        assert "shard 1" in refused.stderr
        assert self.dslide("checkpoint", "restore", "--from", self.copies, "--dry-run") == {
            "checkpoint_id": 1, "restored": False}
        restored = self.dslide("checkpoint", "restore", "--from", self.copies, "--yes")
        assert (restored["checkpoint_id"], restored["restored"]) == (1, True)
        assert self.fingerprints() == self.written
        assert self.dslide("checkpoint", "verify") == {"checkpoint_id": 1, "verified": True}
        assert metric(self.coordinator.admin, "dslide_coordinator_models_recreated_total") == 0
        self.train()

    def test_a_cluster_whose_disks_are_all_gone_comes_back(self) -> None:
        self.copy()
        for number in range(SHARDS):
            self.lose(number)
        self.coordinator.process.kill()
        shutil.rmtree(self.directory / "coordinator")
        self.start_all()
        self.dslide("checkpoint", "restore", "--from", self.copies, "--yes")
        assert self.fingerprints() == self.written
        assert self.dslide("status")["models"] == ["model"]
        # The next checkpoint does not take the number of the one that came back.
        assert self.dslide("checkpoint", "create")["checkpoint_id"] == 2

    def test_a_damaged_copy_changes_nothing(self) -> None:
        path = self.copy()["path"]
        part = self.copies / path / "shard-1"
        largest = max(part.rglob("*.sst"), key=lambda file: file.stat().st_size)
        content = bytearray(largest.read_bytes())
        content[len(content) // 2] ^= 1
        largest.write_bytes(content)
        self.lose(1)
        self.shards[1] = self.start_one(1)
        for command in (["--dry-run"], ["--yes"]):
            refused = self.dslide("checkpoint", "restore", "--from", self.copies, *command,
                                  code=failures_test.DATA_LOSS)
            assert "does not have its checksum" in refused.stderr
        examined = self.start("dslide", "doctor", "--data-dir", self.copies).finish()
        assert_ended(examined, failures_test.DATA_LOSS)
        assert largest.name in examined.stdout


class ScrubTest(CheckpointedCluster):
    scrub_interval = "1s"

    def test_damage_is_found_by_itself_and_an_older_one_is_taken(self) -> None:
        self.dslide("checkpoint", "create")
        part = self.directory / "shard-1" / "images" / f"checkpoint-{2:020}"
        (part / "state").write_bytes((part / "state").read_bytes()[:-1])
        wait_until(lambda: metric(self.coordinator.admin,
                                  "dslide_coordinator_checkpoints_damaged") == 1,
                   lambda: "that the damage is found", alive=[self.coordinator.process])
        assert "a cluster checkpoint is damaged" in self.coordinator.process.stderr
        listed = self.dslide("checkpoint", "list")["checkpoints"]
        assert [bool(entry["damage"]) for entry in listed] == [True, False]
        examined = self.start("dslide", "doctor", "--cluster",
                              self.coordinator.address).finish()
        assert_ended(examined, failures_test.DATA_LOSS)
        assert "cluster checkpoint 2" in examined.stdout
        restored = self.dslide("checkpoint", "restore", "--yes")
        assert restored == {"checkpoint_id": 1, "restored": True, "skipped": [2]}
        assert self.fingerprints() == self.written
