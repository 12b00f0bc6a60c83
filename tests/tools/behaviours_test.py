"""The list of behaviours, out of made-up sources, and what is said about two of them."""

import json
import pathlib
import subprocess
from typing import Any

import behaviours
import found_tests
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
INDEX = "tests/unit/core/lsh/index_test.cc"
CRASH = "tests/integration/crash_test.py"
SOURCES = {
    "tests/unit/core/lsh/CMakeLists.txt": "dslide_test(core_tests FOLDERS core DEPS x)\n",
    INDEX: """TEST_P(IndexTest, Finds) {}
// TEST(Not, AtAll) {}
INSTANTIATE_TEST_SUITE_P(Families, IndexTest, X);
""",
    "tests/integration/CMakeLists.txt": """dslide_script_test(crash 30 ${X})
dslide_pytest(loss THOROUGH)
""",
    CRASH: """class CrashTest(Base):
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
    "tools/fault/planted_edits.py": 'PLANTS = (Plant("ack-early", "b", (Edit("p", "o"),), "t"),)\n',
    "tools/fault/fault_run.py": 'PARTS = {"kills": ("a",), "disks": ()}\n',
    "tests/simulation/bugs.cc": 'constexpr std::array<V, 2> kNames = {\n  "",\n  "torn",\n};\n',
    "services/shard/log.cc": 'DSLIDE_FAILPOINT("shard.log.appended");',
}
FOUND = """\
failpoint services/shard shard.log.appended [fault]
fault fault disks [fault]
fault fault kills [fault]
fuzz fuzz wire_fuzz [ci]
integration crash CrashTest.test_x [quick]
integration loss test_y [ci]
lint layering check_tree [quick]
lint proto the whole script [quick]
lint run 0 usage ./run [quick]
lint run 2 unknown ./run x [quick]
planted bug fault ack-early [fault planted]
simulator bug simulation torn [quick]
unit core/lsh IndexTest with parameters Families [quick]
unit core/lsh IndexTest.Finds [quick]
"""
KINDS = {"unit", "integration", "fault", "lint", "failpoint", "planted bug", "fuzz",
         "simulator bug"}


def found(changed: dict[str, str] | None = None) -> list[found_tests.Behaviour]:
    return found_tests.behaviours(SOURCES | (changed or {}))


def test_everything_is_found() -> None:
    assert "".join(f"{behaviour}\n" for behaviour in found()) == FOUND


def test_this_tree_has_all_kinds() -> None:
    all_of_it = found_tests.behaviours(found_tests.working_tree(ROOT))
    assert {behaviour.kind for behaviour in all_of_it} >= KINDS


def test_a_revision_is_read_as_the_tree_is(tmp_path: pathlib.Path) -> None:
    for path, text in SOURCES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@example.com"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "x"]):
        subprocess.run(git + command, check=True)
    assert found_tests.git_tree(tmp_path, "HEAD") == found_tests.working_tree(tmp_path)
    with pytest.raises(found_tests.SourceError, match="no revision 'nowhere'"):
        found_tests.git_tree(tmp_path, "nowhere")


@pytest.fixture
def compare(capsys: pytest.CaptureFixture[str]) -> Any:
    """compare(after, reviewed): its status and what it says."""

    def call(after: list[found_tests.Behaviour], reviewed: str = "") -> tuple[int, Any]:
        status = behaviours.compare(found(), after, reviewed, "json")
        return status, json.loads(capsys.readouterr().out)

    return call


MOVED = {key.replace("/lsh/index", "/model/index"): text for key, text in SOURCES.items()}
TWICE = {CRASH: "", "tests/a/b_test.cc": "TEST(A, test_x) {}\nTEST(B, test_x) {}\n"}


@pytest.mark.parametrize(("after", "status", "moved", "added"), [
    (SOURCES, 0, 0, 0),
    # To another file, and to another suite; a name that is there twice has not moved.
    (MOVED, 0, 2, 0), (SOURCES | {CRASH: "def test_x(): pass\n"}, 0, 1, 0),
    (SOURCES | TWICE, 1, 0, 2)])
def test_what_has_moved(compare: Any, after: dict[str, str], status: int, moved: int,
                        added: int) -> None:
    found_status, said = compare(found_tests.behaviours(after))
    assert (found_status, len(said["moved"]), len(said["added"])) == (status, moved, added)


def test_another_tier_is_told(compare: Any) -> None:
    lists = {"tests/unit/core/lsh/CMakeLists.txt": "dslide_test(lsh_tests THOROUGH)\n"}
    _, said = compare(found(lists))
    assert len(said["tiers"]) == 2
    assert said["tiers"][1][1:] == ["quick", "ci"]


@pytest.mark.parametrize(("reviewed", "status"), [
    ("", 1),
    ("CrashTest.*\tIndexTest.Finds\n", 0),
    ("# why\nCrashTest.test_x\tgone: no crashes any more\n", 0),
])
def test_a_removed_test_needs_a_review(compare: Any, reviewed: str, status: int) -> None:
    assert compare(found({CRASH: ""}), reviewed)[0] == status


@pytest.mark.parametrize(
    "line", ["CrashTest.test_x\tIndexTest.Fins", "CrashTest.test_x", "CrashTest.test_x\tgone:"])
def test_what_stands_for_a_removed_test_must_exist(compare: Any, line: str) -> None:
    status, said = compare(found(), line)
    assert (status, len(said["problems"])) == (1, 1)
