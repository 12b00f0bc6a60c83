"""Counts of lines, out of a made-up report; and, where there is a clang, of a small program.

usage: coverage_test.py [unittest arguments]
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/coverage"))
import coverage  # noqa: E402
import lines  # noqa: E402

# kernel.h occurs twice: as two programs see it.
REPORT = """SF:/r/core/math/kernel.h
FN:1,f
DA:1,3
DA:2,0
DA:4,0
LH:1
end_of_record
SF:/r/core/math/kernel.h
DA:2,7
DA:4,0
end_of_record
SF:/r/services/shard/log.cc
DA:1,0
DA:2,0
DA:3,1
DA:9,0
end_of_record
SF:/r/tests/unit/a_test.cc
DA:1,5
end_of_record
SF:/usr/include/c++/12/core/vector
DA:1,5
end_of_record
"""
ONE = """
#include <csignal>
#include <unistd.h>
int Die(int x) {
  if (x == 1) {
    kill(getpid(), SIGKILL);
  }
  return x;
}
"""
TWO = """int Die(int x);
int main(int count, char**) { return Die(count); }
"""


class LinesTest(unittest.TestCase):
    FILES = lines.parse(REPORT, pathlib.Path("/r"))

    def test_only_core_and_services_count_and_the_best_instance(self):
        self.assertEqual(
            self.FILES,
            {
                "core/math/kernel.h": {1: 3, 2: 7, 4: 0},
                "services/shard/log.cc": {1: 0, 2: 0, 3: 1, 9: 0},
            },
        )

    def test_sums(self):
        result = lines.summary(self.FILES)
        self.assertEqual(result["total"], {"files": 2, "lines": 7, "covered": 3, "percent": 42.86})
        self.assertEqual(result["parts"]["core"], result["folders"]["core/math"])
        self.assertEqual(result["parts"]["services"]["percent"], 25.0)
        self.assertIn("| services/shard | 1 | 4 | 1 | 25.00 % |", lines.table(result))
        self.assertEqual(lines.summary({})["total"]["percent"], 0.0)

    def test_uncovered_lines(self):
        self.assertEqual(lines.spans(self.FILES["services/shard/log.cc"]), "1-2, 9")
        self.assertEqual(lines.spans({1: 1}), "none")

    def test_lower_than_before(self):
        def result(core, services):
            return {"parts": {"core": {"percent": core}, "services": {"percent": services}}}

        self.assertEqual(
            coverage.lower(result(90.0, 80.0), result(91.0, 79.5)), ["services: 80.00 % -> 79.50 %"]
        )
        self.assertEqual(coverage.lower(result(90.0, 80.0), result(89.9, 80.0)), [])


class KilledProcessTest(unittest.TestCase):
    def setUp(self):
        missing = [
            tool for tool in ("clang++", "llvm-profdata", "llvm-cov") if not shutil.which(tool)
        ]
        if missing:
            self.skipTest(f"{missing[0]} is not installed")
        self.root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())).resolve()
        self.build = self.root / coverage.BUILD
        for path, text in {
            "core/one.cc": ONE,
            "tests/two.cc": TWO,
            f"{coverage.BUILD}/bin/script": "#!/bin/sh\n",
            f"{coverage.BUILD}/counted.txt": coverage.counted(self.root),
            f"{coverage.BUILD}/unity.cxx": f'#include "{self.root}/core/one.cc"\n',
        }.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text, encoding="utf-8")
        subprocess.run(
            [
                "clang++",
                *coverage.compile_flags(self.root).split(),
                self.build / "unity.cxx",
                self.root / "tests/two.cc",
                "-o",
                self.build / "bin/program",
            ],
            check=True,
        )

    def test_what_a_killed_process_did_counts_and_sources_may_be_compiled_as_one(self):
        self.assertEqual(coverage.call(self.build / "bin/program"), -9)
        files = coverage.measure(self.root, self.build, [])
        self.assertEqual(list(files), ["core/one.cc"])
        self.assertGreater(files["core/one.cc"][6], 0)

    def test_without_a_run_there_is_no_figure(self):
        with self.assertRaisesRegex(coverage.StepError, "no test has left a profile"):
            coverage.measure(self.root, self.build, [])


if __name__ == "__main__":
    unittest.main()
