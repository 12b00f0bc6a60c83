"""The kill loop finds the loss that it must find, and none where there is none.

usage: kill_loop_test.py --bin-dir DIR [unittest arguments]
"""

import json
import pathlib
import subprocess
import sys
import unittest
from unittest import mock

import fault_paths  # noqa: F401
import kill_loop
import processes
import twin
from fault_cluster import supports
from kill_schedule import (CLIENT, COORDINATOR, DEEDS, KILL, PARTITION, PAUSE, SHARD, TRAINER,
                           schedule)

SEED = 11


class ScheduleTest(unittest.TestCase):
    STRIKES = {deed: 20 for deed in DEEDS}
    MEMBERS = {SHARD: 3, TRAINER: 1, CLIENT: 2, COORDINATOR: 1}

    def test_equal_seeds_give_equal_schedules(self):
        first = schedule(SEED, self.STRIKES, self.MEMBERS)
        self.assertEqual(first, schedule(SEED, self.STRIKES, self.MEMBERS))
        self.assertNotEqual(first, schedule(SEED + 1, self.STRIKES, self.MEMBERS))

    def test_everything_that_was_asked_for_happens_to_everybody(self):
        planned = schedule(SEED, self.STRIKES, self.MEMBERS)
        for kind, deed in DEEDS:
            victims = [strike.victim for strike in planned
                       if (strike.kind, strike.deed) == (kind, deed)]
            self.assertEqual(len(victims), 20)
            self.assertEqual(set(victims), set(range(self.MEMBERS[kind])))

    def test_partitions_are_of_every_kind(self):
        planned = schedule(SEED, {(SHARD, PARTITION): 50}, self.MEMBERS)
        self.assertEqual({strike.directions for strike in planned},
                         {("up",), ("down",), ("up", "down")})
        with self.assertRaisesRegex(ValueError, "proxies"):
            kill_loop.run(kill_loop.Settings(SEED, strikes={(SHARD, PARTITION): 1}), None)

    def test_some_come_early_and_some_late(self):
        pauses = [strike.pause for strike in schedule(SEED, self.STRIKES, self.MEMBERS)]
        self.assertGreater(sum(pause < 0.3 for pause in pauses), 30)
        self.assertGreater(sum(pause > 0.4 for pause in pauses), 30)

    def test_nobody_there(self):
        with self.assertRaisesRegex(ValueError, "trainer"):
            schedule(SEED, {(TRAINER, KILL): 1}, {TRAINER: 0})


class FaultyLoop(kill_loop.KillLoop):
    """One that goes on until the network has done its worst."""

    def finish(self):
        def struck():
            self._supervise(0.05)
            return (sum(self._answers()) >= 200
                    and {"lose_reply", "cut"} <= self.cluster.faults().keys())

        processes.wait_until(struck, lambda: f"answers, and faults: {self.cluster.faults()}")
        return super().finish()


class KillLoopTest(processes.ProcessTest):
    def run_loop(self, strikes, loop_class=kill_loop.KillLoop, **settings):
        directory = self.directory / "run"
        directory.mkdir()
        result = kill_loop.run(kill_loop.Settings(SEED, strikes=strikes, **settings), directory,
                               loop_class=loop_class)
        self.assertEqual(json.loads((directory / "result.json").read_text()), result)
        return result

    def test_killed_trainers_and_coordinators_and_a_bad_network_lose_and_repeat_nothing(self):
        result = self.run_loop({(TRAINER, KILL): 1, (CLIENT, KILL): 2, (COORDINATOR, KILL): 1,
                                (SHARD, PAUSE): 1, (SHARD, PARTITION): 1},
                               FaultyLoop, rules=kill_loop.FAULTY_NETWORK)
        self.assertEqual(result["violations"], {}, result)
        self.assertEqual((result["acked_lost"], result["applied_twice"]), (0, 0))
        self.assertEqual((result["trainer_kills"], result["client_kills"],
                          result["coordinator_kills"], result["shard_pauses"],
                          result["shard_partitions"]), (1, 2, 1, 1, 1))
        self.assertGreaterEqual(result["acked"], 200)

    def test_a_killed_shard_without_a_log_has_lost_updates_and_says_how_many(self):
        result = self.run_loop({(SHARD, KILL): 2}, expect_loss=True, trainers=0)
        self.assertEqual(result["violations"], {}, result)
        self.assertGreater(result["acked_lost"], 0)
        self.assertEqual(result["reported_lost"], result["acked_lost"])
        self.assertEqual(result["applied_twice"], 0)
        self.assertGreater(result["recovery_p50_seconds"], 0)

    def test_no_loss_is_a_failure_where_loss_is_expected(self):
        result = self.run_loop({}, expect_loss=True, trainers=0)
        self.assertEqual(result["violations"], {"no_loss_found": 1})

    def test_with_a_command_log_a_killed_shard_loses_nothing(self):
        if not supports(processes.bin_dir(), "log"):
            self.skipTest("dslide-shard has no --durability log")
        result = self.run_loop({(SHARD, KILL): 3}, mode="log")
        self.assertEqual(result["violations"], {}, result)
        self.assertEqual((result["acked_lost"], result["applied_twice"]), (0, 0))
        # Each is, bit for bit, the shard that never stopped.
        self.assertEqual((result["bit_equal_shards"], result["digests_differ"]), (2, 0))

    def test_a_shard_with_another_bit_than_its_twin_is_a_violation(self):
        if not supports(processes.bin_dir(), "log"):
            self.skipTest("dslide-shard has no --durability log")
        replay = twin.replay

        def other_bit(copy, directory, models):
            digests, found = replay(copy, directory, models)
            if copy.name == "twin-1":
                steps, digest = digests["increments/cells"]
                digests["increments/cells"] = steps, f"{int(digest, 16) ^ 1:016x}"
            return digests, found

        with mock.patch("twin.replay", other_bit):
            result = self.run_loop({(SHARD, KILL): 1}, mode="log", trainers=0)
        self.assertEqual(result["violations"], {"digests_differ": 1})
        self.assertEqual(result["bit_equal_shards"], 1)
        self.assertIn("increments/cells", result["twins"][1]["differing"][0])

    def test_many_increments_over_lost_replies_and_killed_shards_are_exact(self):
        if not supports(processes.bin_dir(), "log"):
            self.skipTest("dslide-shard has no --durability log")
        directory = self.directory / "increments"
        directory.mkdir()
        result = kill_loop.run(kill_loop.increment_settings(SEED, 2000, 2, clients=3), directory)
        self.assertEqual(result["violations"], {}, result)
        self.assertGreaterEqual(result["acked"], 2000)
        self.assertEqual(result["sum_difference"], 0)
        self.assertEqual(result["final_sum"], result["acked"] + result["unknown_applied"])
        self.assertEqual(result["shard_kills"], 2)
        self.assertGreater(result["network_faults"]["lose_reply"], result["acked"] * 0.03)
        self.assertGreater(result["network_faults"]["duplicate"], 0)

    def test_one_increment_too_few_in_the_sum_is_a_violation(self):
        sums_of = kill_loop.final_sums

        def one_missing(*arguments):
            sums, miscounted = sums_of(*arguments)
            sums.popitem()
            return sums, miscounted

        with mock.patch("kill_loop.final_sums", one_missing):
            result = self.run_loop({}, trainers=0)
        self.assertEqual(result["violations"], {"acked_lost": 1, "sum_differs": 1})

    def test_a_mode_that_the_programs_do_not_offer_is_refused(self):
        if supports(processes.bin_dir(), "log"):
            self.skipTest("dslide-shard offers every mode")
        refused = subprocess.run(
            [sys.executable, pathlib.Path(kill_loop.__file__), "--bin-dir", processes.bin_dir(),
             "--durability", "log"], capture_output=True, text=True)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("do not offer it", refused.stderr)


if __name__ == "__main__":
    processes.main()
