"""Where the time goes, out of made-up logs; and the journal that ./run writes.

usage: times_test.py [unittest arguments]
"""

import contextlib
import io
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/times"))
import kept  # noqa: E402
import ninja_log  # noqa: E402
import test_reports  # noqa: E402
import times  # noqa: E402

LOG = """# ninja log v5
0\t9000\t1\tcore/lsh/CMakeFiles/dslide_lsh.dir/old.cc.o\ta
0\t5000\t1\tcore/lsh/CMakeFiles/dslide_lsh.dir/index.cc.o\tb
1000\t9000\t1\tprotos/x.pb.h\tc
1000\t9000\t1\tprotos/x.pb.cc\tc
2000\t9500\t1\ttests/unit/CMakeFiles/unit_tests.dir/Unity/unity_0_cxx.cxx.o\td
10\t20\t1\tCMakeFiles/pch.dir/cmake_pch.hxx.gch\te
30\t4030\t1\tcore/lsh/CMakeFiles/dslide_lsh.dir/index.cc.o\tb
4030\t4500\t1\tcore/lsh/libdslide_lsh.a\tf
4500\t6000\t1\tbin/unit_tests\tg
4500\t6000
"""
GONE = "core/lsh/CMakeFiles/dslide_lsh.dir/old.cc.o"
CTEST = """<testsuite name="x">
  <testcase name="fault.kill_loop" time="12.5" status="run"/>
  <testcase name="unit" time="3.0" status="run"/>
  <testcase name="SlotMapTest.Finds" time="0.25" status="fail"/>
  <testcase name="chart.pod" time="0.1" status="notrun"><skipped/></testcase>
</testsuite>"""
GOOGLETEST = """<testsuites time="2.5"><testsuite name="HashIndexTest" time="2.5">
  <testcase name="Finds" status="run" result="completed" time="2." classname="HashIndexTest"/>
  <testcase name="Keeps" status="run" result="completed" time="0.5" classname="HashIndexTest"/>
  <testcase name="Skips" status="run" result="skipped" time="0" classname="HashIndexTest"/>
</testsuite></testsuites>"""
STEPS = """check_time\tcheck\tstep\tseconds\tuser_seconds\tsystem_seconds
2020-01-01T00:00:00Z\ttest quick\ttotal\t999.00\t1.00\t1.00
2020-01-02T00:00:00Z\ttest ci\tbuild, Release\t30.00\t40.00\t10.00
2020-01-02T00:00:00Z\ttest ci\ttotal\t40.00\t41.00\t11.00
"""


class NinjaLogTest(unittest.TestCase):
    def test_a_run_begins_where_the_clock_goes_back(self):
        runs = ninja_log.runs(ninja_log.parse(LOG))
        # An edge that began early and ended late is no new run.
        self.assertEqual(
            [[edge.end for edge in run] for run in runs],
            [[9.0], [5.0, 9.0, 9.5], [0.02, 4.03, 4.5, 6.0]],
        )

    def test_only_the_newest_entry_of_an_output_counts(self):
        seconds = {edge.source: edge.seconds for edge in ninja_log.newest(ninja_log.parse(LOG))}
        self.assertAlmostEqual(seconds["core/lsh/index.cc"], 4.0)

    def test_outputs_of_one_command_count_once(self):
        outputs = [edge.output for edge in ninja_log.parse(LOG)]
        self.assertIn("protos/x.pb.h", outputs)
        self.assertNotIn("protos/x.pb.cc", outputs)

    def test_sums_by_part_and_target(self):
        edges = ninja_log.newest(ninja_log.parse(LOG))
        parts = ninja_log.sums(edges, "part")
        self.assertEqual(
            list(parts), ["libraries", "tests", "programs and test programs", "precompiled headers"]
        )
        self.assertEqual((parts["libraries"].objects, parts["libraries"].links), (2, 1))
        self.assertEqual(parts["precompiled headers"].cached, 1)
        self.assertEqual(
            ninja_log.sums(edges, "target")["unit_tests"], ninja_log.Part(1, 7.5, 0, 1, 1.5)
        )

    def test_an_unknown_log_is_refused(self):
        for text in ("", "# ninja log v99\n", "0\t1\t2\tx\ty\n"):
            with self.subTest(text), self.assertRaises(ninja_log.LogError):
                ninja_log.parse(text)


class KeptTest(unittest.TestCase):
    def test_tables_are_read_back(self):
        text = kept.table(
            "Tests", ("group", "tests", "seconds"), [("unit", 1200, 1234.56), ("lint", 3, 0.5)]
        )
        self.assertEqual(kept.seconds(text), {("Tests", "unit"): 1234.6, ("Tests", "lint"): 0.5})

    def test_growth_needs_a_fifth_and_five_seconds(self):
        def one(seconds):
            return kept.table("Steps", ("step", "seconds", "share"), [("a", seconds, "1 %")])

        self.assertEqual(kept.grown(one(30.0), one(37.0)), [("Steps", "a", 30.0, 37.0)])
        self.assertFalse(kept.grown(one(30.0), one(35.5)))
        self.assertFalse(kept.grown(one(1.0), one(5.0)))
        self.assertFalse(kept.grown(one(30.0), one(3.0)))
        self.assertFalse(kept.grown("Not measured yet.", one(3.0)))

    def test_a_page_without_the_marks_is_refused(self):
        with self.assertRaises(kept.PageError):
            kept.part(f"{kept.END}\n{kept.BEGIN}")

    def test_the_page_has_the_marks(self):
        kept.part((ROOT / "docs/contribute/checks.md").read_text(encoding="utf-8"))


class TimesTest(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        build = self.root / "build"
        for line in LOG.splitlines()[1:-1]:
            output = build / line.split("\t")[3]
            if output != build / GONE:
                output.parent.mkdir(parents=True, exist_ok=True)
                output.touch()
        self.write("build/.ninja_log", LOG)
        self.write("build/steps.tsv", STEPS)
        self.write("build/report-release.xml", CTEST)
        self.write("build/reports/unit.xml", GOOGLETEST)
        self.page = self.write(
            "docs/contribute/checks.md", f"before\n{kept.BEGIN}\nNot yet.\n{kept.END}\nafter\n"
        )

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text, encoding="utf-8")
        return self.root / path

    def call(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with (
            mock.patch.object(sys, "argv", ["times", "--root", str(self.root), *arguments]),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            status = times.main()
        return status, out.getvalue(), err.getvalue()

    def test_the_tables(self):
        status, text, _ = self.call()
        self.assertEqual(status, 0)
        for row in (
            "| build, Release | 30.0 | 75 % | 50.0 |",
            "| build: tests | 1 | 7.5 | 0 | 0 | 0.0 |",
            "| build: libraries | 1 | 4.0 | 0 | 1 | 0.5 |",
            "| build: unit | 2 | 3.0 |",
            "| build: fault | 1 | 12.5 |",
            "| build: cases in C++ | 1 | 0.2 |",
            "| build: HashIndexTest.Finds | 2.0 |",
        ):
            self.assertIn(row, text)
        self.assertNotIn("999", text)  # of an older check
        self.assertNotIn("old.cc", text)  # no longer built
        self.assertNotIn("chart", text)  # skipped

    def test_reports_from_before_the_check_do_not_count(self):
        cases = test_reports.read(self.root / "build", since=4e9)[1]
        self.assertEqual(cases, [])

    def test_writing_keeps_the_rest_of_the_page_and_shows_what_has_grown(self):
        self.call("--write")
        page = self.page.read_text(encoding="utf-8")
        self.assertRegex(page, r"(?s)^before\n.*### Steps.*\nafter\n$")
        self.assertNotIn("Not yet.", page)
        self.write("build/steps.tsv", STEPS.replace("\t30.00", "\t36.50"))
        status, out, err = self.call("-o", "json")
        self.assertEqual(status, 0)
        self.assertEqual(json.loads(out)["grown"], [["Steps", "build, Release", 30.0, 36.5]])
        self.assertIn("GROWN: Steps, build, Release: 30.0 s -> 36.5 s", err)
        self.assertEqual(self.page.read_text(encoding="utf-8"), page)

    def test_a_tree_where_nothing_ran(self):
        for path in (
            "build/.ninja_log",
            "build/steps.tsv",
            "build/report-release.xml",
            "build/reports/unit.xml",
        ):
            (self.root / path).unlink()
        self.assertEqual(self.call()[0], 0)
        self.page.unlink()
        self.assertEqual(self.call()[0], 1)


class JournalTest(unittest.TestCase):
    def test_steps_are_written_as_they_end(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        script = f"""set -euo pipefail; source {ROOT}/tools/common/steps.sh
            step ignored; end_check
            begin_check 'test quick'; step 'build, Release'; sleep 0.2; step tests; (:); end_check
            begin_check 'test full'; step packages; end_check"""
        subprocess.run(["bash", "-c", script], cwd=folder, check=True)
        check = times.last_check(folder / "build/steps.tsv")
        self.assertEqual([step.name for step in check.steps], ["packages", "total"])
        rows = [line.split("\t") for line in (folder / "build/steps.tsv").read_text().splitlines()]
        self.assertEqual(
            [row[2] for row in rows],
            ["step", "build, Release", "tests", "total", "packages", "total"],
        )
        self.assertGreaterEqual(float(rows[1][3]), 0.19)
        self.assertTrue(
            all(re.fullmatch(r"\d+\.\d\d", cell) for row in rows[1:] for cell in row[3:])
        )


if __name__ == "__main__":
    unittest.main()
