"""A full disk costs nothing that was acknowledged, and the same process goes on afterwards; one that
turns read-only costs nothing either, and a shard with a log a restart.

usage: disk_full_test.py --bin-dir DIR [unittest arguments]
"""

import errno
import os
import unittest

import disk_full
import fault_paths  # noqa: F401
import processes
from read_only_disk import ReadOnlyDisk
from small_disk import CannotMount, SmallDisk


class SmallDiskTest(processes.ProcessTest):
    def test_full_is_full_to_the_last_byte_and_free_is_free(self):
        try:
            disk = self.enterContext(SmallDisk(self.directory / "disk", 1))
        except CannotMount as error:
            self.skipTest(str(error))
        self.assertGreater(disk.free_bytes(), 900_000)
        disk.fill()
        self.assertEqual(disk.free_bytes(), 0)
        with self.assertRaises(OSError) as caught:
            (disk.path / "more").write_bytes(b"x")
        self.assertEqual(caught.exception.errno, errno.ENOSPC)
        (disk.path / "more").unlink(missing_ok=True)
        disk.free()
        self.assertGreater(disk.free_bytes(), 900_000)


class ReadOnlyDiskTest(processes.ProcessTest):
    def test_nothing_can_be_changed_until_it_is_healed_and_what_was_synced_stays(self):
        try:
            disk = self.enterContext(ReadOnlyDisk(self.directory / "disk", 16))
        except CannotMount as error:
            self.skipTest(str(error))
        for _ in range(2):
            with open(disk.path / "kept", "ab", buffering=0) as file:
                file.write(b"kept")
                os.fsync(file.fileno())
                before = (disk.path / "kept").read_bytes()
                disk.break_down()
                for change in (lambda: file.write(b"x"), lambda: os.fsync(file.fileno()),
                               lambda: (disk.path / "kept").rename(disk.path / "moved"),
                               lambda: (disk.path / "new").touch()):
                    with self.assertRaises(OSError) as caught:
                        change()
                    self.assertEqual(caught.exception.errno, errno.EROFS)
                self.assertEqual((disk.path / "kept").read_bytes(), before)
            disk.heal()
            self.assertTrue(disk.writable())
            self.assertEqual((disk.path / "kept").read_bytes(), before)
        self.assertEqual(before, b"keptkept")


class DiskFullTest(unittest.TestCase):
    def run_one_round(self, volume, fault="full"):
        try:
            result = disk_full.run(17, volume, 1, fault=fault)
        except CannotMount as error:
            self.skipTest(str(error))
        self.assertEqual(result["violations"], {}, result)
        self.assertEqual((result["acked_lost"], result["applied_twice"], result["rounds"]),
                         (0, 0, 1))
        return result

    def test_a_log_refuses_while_there_is_no_space(self):
        self.assertGreater(self.run_one_round("log")["refused_while_full"], 0)

    def test_without_a_log_updates_go_on_and_checkpoints_come_back(self):
        self.assertGreater(self.run_one_round("checkpoint")["applied_while_full"], 0)

    def test_a_log_that_turns_read_only_ends_the_shard_and_loses_nothing(self):
        result = self.run_one_round("log", "read-only")
        self.assertEqual((result["starts_refused"], result["bit_equal_shards"]), (1, 2))

    def test_without_a_log_updates_go_on_over_a_read_only_disk(self):
        result = self.run_one_round("checkpoint", "read-only")
        self.assertGreater(result["applied_while_full"], 0)


if __name__ == "__main__":
    processes.main()
