"""A full disk costs nothing that was acknowledged, and the same process goes on afterwards.

One that turns read-only costs nothing either, and a shard with a log a restart.
"""

from __future__ import annotations

import errno
import os

import disk_full
import pytest
from kill_loop import Result
from process_case import ProcessCase
from read_only_disk import ReadOnlyDisk
from small_disk import CannotMount, SmallDisk


class SmallDiskTest(ProcessCase):
    def test_full_is_full_to_the_last_byte_and_free_is_free(self) -> None:
        try:
            disk = self.enter(SmallDisk(self.directory / "disk", 1))
        except CannotMount as error:
            pytest.skip(str(error))
        assert disk.free_bytes() > 900_000
        disk.fill()
        assert disk.free_bytes() == 0
        with pytest.raises(OSError) as caught:
            (disk.path / "more").write_bytes(b"x")
        assert caught.value.errno == errno.ENOSPC
        (disk.path / "more").unlink(missing_ok=True)
        disk.free()
        assert disk.free_bytes() > 900_000


class ReadOnlyDiskTest(ProcessCase):
    def test_nothing_can_be_changed_until_it_is_healed_and_what_was_synced_stays(self) -> None:
        try:
            disk = self.enter(ReadOnlyDisk(self.directory / "disk", 16))
        except CannotMount as error:
            pytest.skip(str(error))
        for _ in range(2):
            with open(disk.path / "kept", "ab", buffering=0) as file:
                file.write(b"kept")
                os.fsync(file.fileno())
                before = (disk.path / "kept").read_bytes()
                disk.break_down()
                for change in (lambda: file.write(b"x"), lambda: os.fsync(file.fileno()),
                               lambda: (disk.path / "kept").rename(disk.path / "moved"),
                               lambda: (disk.path / "new").touch()):
                    with pytest.raises(OSError) as caught:
                        change()
                    assert caught.value.errno == errno.EROFS
                assert (disk.path / "kept").read_bytes() == before
            disk.heal()
            assert disk.writable()
            assert (disk.path / "kept").read_bytes() == before
        assert before == b"keptkept"


class DiskFullTest:
    def run_one_round(self, volume: str, fault: str = "full") -> Result:
        try:
            result = disk_full.run(17, volume, 1, fault=fault)
        except CannotMount as error:
            pytest.skip(str(error))
        assert result["violations"] == {}, result
        assert (result["acked_lost"], result["applied_twice"], result["rounds"]) == (0, 0, 1)
        return result

    def test_a_log_refuses_while_there_is_no_space(self) -> None:
        assert self.run_one_round("log")["refused_while_full"] > 0

    def test_without_a_log_updates_go_on_and_checkpoints_come_back(self) -> None:
        assert self.run_one_round("checkpoint")["applied_while_full"] > 0

    def test_a_log_that_turns_read_only_ends_the_shard_and_loses_nothing(self) -> None:
        result = self.run_one_round("log", "read-only")
        assert (result["starts_refused"], result["bit_equal_shards"]) == (1, 2)

    def test_without_a_log_updates_go_on_over_a_read_only_disk(self) -> None:
        result = self.run_one_round("checkpoint", "read-only")
        assert result["applied_while_full"] > 0
