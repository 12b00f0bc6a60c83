"""The list of behaviours, out of made-up sources, and what is said about two of them.

usage: behaviours_test.py [unittest arguments]
"""

import contextlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/behaviours"))
import behaviours  # noqa: E402
import found_tests  # noqa: E402

SOURCES = {
    "tests/unit/core/lsh/CMakeLists.txt": "dslide_test(core_tests FOLDERS core DEPS x)\n",
    "tests/unit/core/lsh/index_test.cc": """TEST_P(IndexTest, Finds) {}
// TEST(Not, AtAll) {}
INSTANTIATE_TEST_SUITE_P(Families, IndexTest, X);
""",
    "tests/integration/CMakeLists.txt": """dslide_script_test(crash 30 ${X})
dslide_script_test(loss THOROUGH)
""",
    "tests/integration/crash_test.py": """class CrashTest(Base):
    def test_x(self): pass
    def helper(self): pass
""",
    "tests/integration/loss_test.py": "def test_y(): pass\n",
    "tests/integration/crash.py": "def test_no(self): pass\n",
    "tests/lint/run_test.sh": """expect() {
}
expect 0 usage ./run
  expect 2 unknown ./run x
""",
    "tests/lint/proto_test.sh": "buf lint\n",
    "tests/lint/layering_test.py": "def check_tree(): pass\n",
    "tests/fuzz/wire_fuzz.cc": "int x;",
    "tests/fault/planted_edits.py": 'PLANTS = (Plant("ack-early", "b", (Edit("p", "o"),), "t"),)\n',
    "tests/fault/fault_run.py": 'PARTS = {"kills": ("a",), "disks": ()}\n',
    "tests/simulation/bugs.cc": 'constexpr std::array<V, 2> kNames = {\n  "",\n  "torn",\n};\n',
    "services/shard/log.cc": 'DSLIDE_FAILPOINT("shard.log.appended");',
}


def found(**changed):
    return found_tests.behaviours({**SOURCES, **changed})


def moved(path, to):
    return found_tests.behaviours(
        {to if key == path else key: text for key, text in SOURCES.items()}
    )


class ListTest(unittest.TestCase):
    def test_everything_is_found(self):
        self.assertEqual(
            [str(behaviour) for behaviour in found()],
            [
                "failpoint services/shard shard.log.appended [fault]",
                "fault fault disks [fault]",
                "fault fault kills [fault]",
                "fuzz fuzz wire_fuzz [ci]",
                "integration crash CrashTest.test_x [quick]",
                "integration loss test_y [ci]",
                "lint layering check_tree [quick]",
                "lint proto the whole script [quick]",
                "lint run 0 usage ./run [quick]",
                "lint run 2 unknown ./run x [quick]",
                "planted bug fault ack-early [fault planted]",
                "simulator bug simulation torn [quick]",
                "unit core/lsh IndexTest with parameters Families [quick]",
                "unit core/lsh IndexTest.Finds [quick]",
            ],
        )

    def test_this_tree_has_all_kinds(self):
        kinds = {
            behaviour.kind for behaviour in found_tests.behaviours(found_tests.working_tree(ROOT))
        }
        self.assertLessEqual(
            {
                "unit",
                "integration",
                "fault",
                "lint",
                "failpoint",
                "planted bug",
                "fuzz",
                "simulator bug",
            },
            kinds,
        )

    def test_a_revision_is_read_as_the_tree_is(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for path, text in SOURCES.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
        git = ["git", "-C", str(folder), "-c", "user.name=x", "-c", "user.email=x@example.com"]
        for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "x"]):
            subprocess.run(git + command, check=True)
        self.assertEqual(found_tests.git_tree(folder, "HEAD"), found_tests.working_tree(folder))
        with self.assertRaisesRegex(found_tests.SourceError, "no revision 'nowhere'"):
            found_tests.git_tree(folder, "nowhere")


class ComparisonTest(unittest.TestCase):
    INDEX = "tests/unit/core/lsh/index_test.cc"

    def compare(self, after, reviewed=""):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            status = behaviours.compare(found(), after, reviewed, "json")
        return status, json.loads(out.getvalue())

    def test_nothing_changed(self):
        status, said = self.compare(found())
        self.assertEqual((status, said["removed"], said["added"], said["moved"]), (0, {}, [], []))

    def test_a_test_in_another_file_has_moved(self):
        status, said = self.compare(moved(self.INDEX, "tests/unit/core/model/index_test.cc"))
        self.assertEqual((status, len(said["moved"]), said["added"]), (0, 2, []))

    def test_a_test_in_another_suite_has_moved(self):
        status, said = self.compare(
            found(**{"tests/integration/crash_test.py": "def test_x(): pass\n"})
        )
        self.assertEqual(status, 0)
        self.assertEqual(
            said["moved"],
            [["integration crash CrashTest.test_x [quick]", "integration crash test_x [quick]"]],
        )

    def test_a_case_whose_name_is_there_twice_has_not_moved(self):
        status, said = self.compare(
            found(
                **{
                    "tests/integration/crash_test.py": "",
                    "tests/a/b_test.cc": "TEST(A, test_x) {}\nTEST(B, test_x) {}\n",
                }
            )
        )
        self.assertEqual((status, said["moved"], len(said["added"])), (1, [], 2))

    def test_another_tier_is_told(self):
        lists = {"tests/unit/core/lsh/CMakeLists.txt": "dslide_test(lsh_tests THOROUGH)\n"}
        said = self.compare(found(**lists))[1]
        self.assertEqual(len(said["tiers"]), 2)
        self.assertEqual(said["tiers"][1][1:], ["quick", "ci"])

    def test_a_removed_test_needs_a_review(self):
        fewer = found(**{"tests/integration/crash_test.py": ""})
        self.assertEqual(self.compare(fewer)[0], 1)
        self.assertEqual(self.compare(fewer, "CrashTest.*\tIndexTest.Finds\n")[0], 0)
        self.assertEqual(
            self.compare(fewer, "# why\nCrashTest.test_x\tgone: no crashes any more\n")[0], 0
        )

    def test_what_stands_for_a_removed_test_must_exist(self):
        for line in (
            "CrashTest.test_x\tIndexTest.Fins",
            "CrashTest.test_x",
            "CrashTest.test_x\tgone:",
        ):
            with self.subTest(line):
                status, said = self.compare(found(), line)
                self.assertEqual((status, len(said["problems"])), (1, 1))


if __name__ == "__main__":
    unittest.main()
