"""A full disk costs nothing that was acknowledged, and the same process goes on afterwards.

usage: disk_full_test.py --bin-dir DIR [unittest arguments]
"""

import errno
import unittest

import disk_full
import fault_paths  # noqa: F401
import processes
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


class DiskFullTest(unittest.TestCase):
    def run_one_round(self, volume):
        try:
            result = disk_full.run(17, volume, 1)
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


if __name__ == "__main__":
    processes.main()
