"""The simulator's runner: portions, sums, and a run of the program itself.

usage: simulation_test.py --bin-dir DIR [unittest arguments]
"""

import pathlib
import stat
import sys
import tempfile
import unittest

import simulation

BIN_DIR = None


class SimulationRunnerTest(unittest.TestCase):
    def program(self, text):
        directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        path = directory / simulation.PROGRAM
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="ascii")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return directory

    def test_portions_cover_all_seeds_once(self):
        for seeds, count in ((10, 3), (2, 5), (1, 1)):
            covered = [seed for start, size in simulation.portions(7, seeds, count)
                       for seed in range(start, start + size)]
            self.assertEqual(covered, list(range(7, 7 + seeds)))

    def test_a_program_that_dies_is_no_result(self):
        with self.assertRaisesRegex(RuntimeError, "ended with 3: broken"):
            simulation.run(self.program("echo broken >&2; exit 3"), 1, 10, at_once=1)

    def test_the_program_reports_what_it_did(self):
        if BIN_DIR is None or not simulation.exists(BIN_DIR):
            self.skipTest("needs --bin-dir with the simulator")
        result = simulation.run(BIN_DIR, first_seed=1, seeds=40, at_once=2)
        self.assertEqual((result["seeds"], result["repeated"]), (40, 4))
        self.assertEqual((result["violations"], result["trace_hash_mismatches"]), (0, 0))
        self.assertEqual(sum(result["modes"].values()), 40)
        self.assertGreater(result["faults"]["shard_kill"], 0)


if __name__ == "__main__":
    if "--bin-dir" in sys.argv:
        at = sys.argv.index("--bin-dir")
        BIN_DIR = pathlib.Path(sys.argv[at + 1])
        del sys.argv[at:at + 2]
    unittest.main()
