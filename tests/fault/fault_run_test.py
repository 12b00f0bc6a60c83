"""What `./run fault` reports: seeds, portions, failures, and null for what does not exist.

usage: fault_run_test.py [unittest arguments]
"""

import contextlib
import dataclasses
import io
import json
import pathlib
import stat
import tempfile
import unittest
from unittest import mock

import fault_run
import planted_bugs
from corruption_loop import Tally
from failpoints import Point
from fault_run import PARTS, PLANS, FaultRun, batches
from kill_schedule import CLIENT, KILL, SHARD, TRAINER
from now_and_then import NowAndThen
from small_disk import CannotMount

# Keys that readers of the JSON rely on.
KEYS = {"seed", "shard_kills", "trainer_kills", "client_kills", "acked_lost", "applied_twice", "restores",
        "cut_mismatches", "corruptions", "silent", "sim_seeds", "sim_violations", "planted",
        "planted_caught", "failpoints", "failpoints_hit", "failpoint_violations"}


def loop_result(settings, **changes):
    """A result of a kill loop in which all went well."""
    result = {"shard_kills": settings.strikes.get((SHARD, KILL), 0), "trainer_kills": 5,
              "client_kills": 3, "coordinator_kills": 1, "shard_pauses": 1, "shard_partitions": 1, "acked": 100,
              "acked_lost": 0, "applied_twice": 0, "reported_lost": 0, "recovery_p99_seconds": 0.5,
              "bit_equal_shards": settings.shards if settings.mode == "log" else None,
              "digests_differ": 0 if settings.mode == "log" else None,
              "sum_difference": 0, "network_faults": {"lose_reply": 12},
              "drains": 4, "shard_drain_p99_seconds": 0.8, "violations": {}}
    return result | changes


class NowAndThenTest(unittest.TestCase):
    def test_a_line_is_passed_on_when_the_last_is_long_ago(self):
        now, said = 100.0, []
        say = NowAndThen(said.append, seconds=30, clock=lambda: now)
        for number in range(100):
            say(f"{number}/100")
            now += 1
        self.assertEqual(said, ["30/100", "60/100", "90/100"])


class FaultRunTest(unittest.TestCase):
    def run_quick(self, logged, loop=loop_result, corrupt=None, points=(), struck=None,
                  mismatches=0, simulated=None, restored=None, only=tuple(PARTS),
                  planted=(planted_bugs.CAUGHT,)):
        """The result of a quick run over loops that are only pretended."""
        directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        program = directory / "dslide-shard"
        program.write_text(f"#!/bin/sh\necho '{'--durability TEXT' if logged else '--listen'}'\n",
                           encoding="ascii")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)

        self.seen = []

        def run_kept(settings, report, loop_class=None):
            self.seen.append(settings)
            return loop(settings)

        def run_corruption(seed, counts, say):
            tally = Tally()
            for way, count in counts.items():
                for number in range(count):
                    tally.add({"way": way, "round": number, "file": "f", "file_kind": "sst",
                               "kind": "flip", "offset": 1}, "refused", "")
            if corrupt:
                tally.add({"way": "load", "round": 9, "file": "f", "file_kind": "sst",
                           "kind": "flip", "offset": 77}, corrupt, "")
            return tally

        with mock.patch("kill_loop.run_kept", run_kept), \
                mock.patch("corruption_loop.run", run_corruption), \
                mock.patch("failpoints.points", lambda _: list(points)), \
                mock.patch("failpoint_loop.run", lambda *_: struck), \
                mock.patch("poison.run", lambda seed, count, per_good: {
                    "poison": count, "poison_mismatches": mismatches, "mismatches": ["m"]}), \
                mock.patch("overload.run", lambda seconds, times: {
                    "alive": True, "health_failures": 0, "broken": []}), \
                mock.patch("protocol_abuse.run", lambda seconds, attacks, positions: {
                    "attacks": len(attacks), "survived": len(attacks), "exceeded": {},
                    "violations": []}), \
                mock.patch("simulation.exists", lambda _: simulated is not None), \
                mock.patch("simulation.run", lambda *_: simulated), \
                mock.patch("restore_loop.exists", lambda _: restored is not None), \
                mock.patch("restore_loop.run", lambda *_, say: restored), \
                mock.patch("planted_bugs.run", lambda *_, say: [
                    planted_bugs.Outcome(planted_bugs.PLANTS[0], verdict) for verdict in planted]), \
                contextlib.redirect_stderr(io.StringIO()):
            run = FaultRun(PLANS["quick"], 7, directory, only)
            run.run()
        result = run.result("quick", 1.0)
        self.assertEqual(json.loads(json.dumps(result)), result)
        self.assertLessEqual(KEYS, result.keys())
        return run, result

    def test_without_a_log_killed_shards_are_a_self_test_and_no_claim(self):
        run, result = self.run_quick(logged=False)
        self.assertIsNone(result["shard_kills"])
        self.assertIsNone(result["bit_equal_shards"])
        self.assertEqual(result["self_test"]["shard_kills"], PLANS["quick"].self_test_kills)
        counts = [result[key] for key in ("trainer_kills", "client_kills", "acked_lost", "silent")]
        self.assertEqual(counts, [5, 3, 0, 0])
        self.assertIn("no command log", run.untested()[0])
        self.assertTrue(all(settings.mode == "checkpoint" for settings in self.seen))

    def test_with_a_log_killed_shards_count(self):
        run, result = self.run_quick(logged=True)
        self.assertEqual(result["shard_kills"], PLANS["quick"].logged_strikes[SHARD, KILL])
        self.assertEqual(result["durability"], "log")
        # Two portions of the strikes, of two and three shards.
        self.assertEqual((result["bit_equal_shards"], result["digests_differ"]), (5, 0))
        self.assertEqual(self.seen[-1].mode, "log")
        self.assertEqual((result["drains"], result["drain_acked_lost"]), (8, 0))
        self.assertFalse(any("shard_kills" in line for line in run.untested()))

    def test_what_does_not_exist_is_null_and_said(self):
        run, result = self.run_quick(logged=True)
        said = " ".join(run.untested())
        for key in ("restores", "cut_mismatches", "sim_seeds", "sim_violations"):
            self.assertIsNone(result[key])
            self.assertIn(key, said)

    def test_a_planted_bug_that_nobody_notices_is_a_failure(self):
        run, result = self.run_quick(logged=True)
        self.assertEqual((result["planted"], result["planted_caught"]), (1, 1))
        self.assertEqual(run.failures, [])
        run, result = self.run_quick(logged=True,
                                     planted=(planted_bugs.CAUGHT, planted_bugs.MISSED))
        self.assertEqual((result["planted"], result["planted_caught"]), (2, 1))
        self.assertIn(planted_bugs.PLANTS[0].name, run.failures[0])

    def test_a_broken_promise_is_a_failure(self):
        def loop(settings):
            return loop_result(settings, acked_lost=3, violations={"acked_lost": 3})

        run, result = self.run_quick(logged=False, loop=loop)
        self.assertTrue(run.failures)
        self.assertEqual(result["acked_lost"], 3)

    def test_a_loop_that_does_not_end_is_a_failure_and_no_zero(self):
        def loop(_):
            raise AssertionError("not within 30 s: the cluster is ready")

        run, result = self.run_quick(logged=False, loop=loop)
        self.assertEqual(len(run.failures), 3)
        self.assertIsNone(result["acked_lost"])
        self.assertIsNone(result["trainer_kills"])

    def test_silent_damage_is_a_failure_that_can_be_repeated(self):
        run, result = self.run_quick(logged=False, corrupt="silent")
        self.assertEqual(result["silent"], 1)
        self.assertEqual(result["corruptions"], sum(PLANS["quick"].corruptions.values()) + 1)
        self.assertIn("--only load:9", run.failures[0])

    def test_without_failpoints_that_is_said(self):
        run, result = self.run_quick(logged=True)
        self.assertIsNone(result["failpoints"])
        self.assertIn("built without them", " ".join(run.untested()))

    def test_failpoints_that_break_a_promise_or_are_not_hit_are_failures(self):
        struck = {"failpoints": 3, "failpoints_hit": 2, "failpoint_violations": 1,
                  "violations": [{"what": "acked_lost: 1"}], "not_hit": ["b of a shard"]}
        run, result = self.run_quick(logged=True, points=[Point("a", "shard", "log")],
                                     struck=struck)
        self.assertEqual([result[key] for key in ("failpoints", "failpoints_hit",
                                                  "failpoint_violations")], [3, 2, 1])
        self.assertEqual(len(run.failures), 2)
        self.assertIn("acked_lost", run.failures[0])
        self.assertIn("b of a shard", run.failures[1])

    def test_poison_that_was_found_is_a_failure(self):
        run, result = self.run_quick(logged=True, mismatches=2)
        self.assertEqual((result["poison"], result["poison_mismatches"]),
                         (PLANS["quick"].poison, 2))
        self.assertIn("poison, seed 7", run.failures[0])

    def test_what_was_not_asked_for_is_null_and_said(self):
        run, result = self.run_quick(logged=True, only=("poison", "overload"))
        self.assertEqual(self.seen, [])
        self.assertEqual((result["poison"], result["overload"]["alive"]),
                         (PLANS["quick"].poison, True))
        said = " ".join(run.untested())
        for part in set(PARTS) - {"poison", "overload"}:
            for key in PARTS[part]:
                self.assertIsNone(result[key], key)
                self.assertIn(key, said)
        self.assertNotIn("poison_mismatches", said)

    def test_every_part_fills_keys_that_the_result_has(self):
        _, result = self.run_quick(logged=True)
        self.assertEqual([result[key] for key in PARTS["increments"]], [100, 0, 3, 12])
        self.assertLessEqual({key for keys in PARTS.values() for key in keys}, result.keys())

    def test_parts_are_named(self):
        self.assertEqual(fault_run._parts("kills, planted"), ("kills", "planted"))
        shown = io.StringIO()
        with contextlib.redirect_stderr(shown), self.assertRaises(SystemExit) as ended, \
                mock.patch("sys.argv", ["fault_run.py", "quick", "--bin-dir", ".", "--only",
                                        "kills,luck"]):
            fault_run.main()
        self.assertEqual(ended.exception.code, 2)
        self.assertIn("unknown part 'luck'; there are: kills, increments,", shown.getvalue())

    def test_what_a_tier_leaves_out_is_null_and_said(self):
        run, result = self.run_quick(logged=True)
        self.assertIsNone(result["disk_full_rounds"])
        self.assertIn("disk_full_rounds", " ".join(run.untested()))
        self.assertEqual(result["abuse_survived"], result["abuse_attacks"])
        self.assertGreater(result["abuse_attacks"], 0)

    def test_a_kind_of_disk_that_cannot_be_mounted_is_null_and_the_other_counts(self):
        def run_disk(_, volume, rounds, fault):
            if fault == "read-only":
                raise CannotMount("no loop devices")
            return {"rounds": rounds, "acked_lost": 0, "resume_max_seconds": 2.5, "violations": {}}

        plan = dataclasses.replace(PLANS["quick"], disk_rounds=3)
        with mock.patch("disk_full.run", run_disk), mock.patch.dict(PLANS, quick=plan):
            run, result = self.run_quick(logged=True, only=("disks",))
        self.assertEqual([result[key] for key in PARTS["disks"]], [6, None, 2.5, 0])
        self.assertIn("disk_read_only_rounds: not tested: no loop devices", run.untested())

    def test_simulated_clusters_count_and_what_they_break_is_a_failure(self):
        simulated = {"seeds": 2000, "violations": 1, "trace_hash_mismatches": 0, "faults": {},
                     "shown": ["seed 5: lost"]}
        run, result = self.run_quick(logged=False, simulated=simulated)
        self.assertEqual((result["sim_seeds"], result["sim_violations"]), (2000, 1))
        self.assertEqual(run.failures, ["simulated clusters: seed 5: lost"])
        self.assertFalse(any("sim_seeds" in line for line in run.untested()))

    def test_restores_count_and_a_mismatch_is_a_failure(self):
        restored = {"restores": 30, "mismatches": 1, "violations": ["seed 7/0: tracer-1 differs"]}
        run, result = self.run_quick(logged=True, restored=restored)
        self.assertEqual((result["restores"], result["cut_mismatches"]), (30, 1))
        self.assertEqual(run.failures, ["restores, seed 7/0: tracer-1 differs"])
        self.assertEqual(run.failed, ["restores"])

    def test_portions(self):
        strikes = {(SHARD, KILL): 120, (CLIENT, KILL): 7}
        parts = list(batches(strikes))
        self.assertTrue(all(sum(part.values()) <= 51 for part in parts))
        for deed, count in strikes.items():
            self.assertEqual(sum(part.get(deed, 0) for part in parts), count)
        self.assertEqual(list(batches({(SHARD, KILL): 0})), [{}])

    def test_every_tier_kills_and_damages(self):
        for plan in PLANS.values():
            self.assertGreater(plan.self_test_kills, 0)
            self.assertGreater(min(plan.strikes.values()), 0)
            self.assertGreaterEqual(plan.logged_strikes[SHARD, KILL], 30)
            trainers = sum(strikes.get((kind, KILL), 0) for kind in (TRAINER, CLIENT) for strikes in
                           (plan.strikes, plan.clean_strikes, plan.logged_strikes))
            self.assertGreaterEqual(trainers, 50)
            self.assertGreater(min(plan.corruptions.values()), 0)
            self.assertGreater(plan.simulated, 0)
            self.assertGreater(plan.restores, 0)
        self.assertEqual(set(fault_run.PLANS), {"quick", "full"})


if __name__ == "__main__":
    unittest.main()
