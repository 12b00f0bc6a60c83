"""Where the time goes, out of made-up logs; and the journal that ./run writes."""

import json
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable

import kept
import ninja_log
import pytest
import times

ROOT = pathlib.Path(__file__).resolve().parents[2]
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


def test_of_an_output_the_newest_entry_counts_and_of_a_command_one_output() -> None:
    edges = ninja_log.parse(LOG)
    # A run begins where the clock goes back; an edge that began early and ended late is none.
    assert [[edge.end for edge in run] for run in ninja_log.runs(edges)] == [
        [9.0], [5.0, 9.0, 9.5], [0.02, 4.03, 4.5, 6.0]]
    newest = ninja_log.newest(edges)
    seconds = {edge.source: edge.seconds for edge in newest}
    assert seconds["core/lsh/index.cc"] == pytest.approx(4.0)
    assert [edge.output for edge in edges if edge.output.startswith("protos")] == ["protos/x.pb.h"]
    parts = ninja_log.sums(newest, "part")
    assert list(parts) == [
        "libraries", "tests", "programs and test programs", "precompiled headers"]
    assert ninja_log.sums(newest, "target")["unit_tests"] == ninja_log.Part(1, 7.5, 0, 1, 1.5)
    with pytest.raises(ninja_log.LogError):
        ninja_log.parse("# ninja log v99\n")


@pytest.mark.parametrize(
    ("before", "after", "grown"),
    [(30.0, 37.0, True), (30.0, 35.5, False), (1.0, 5.0, False), (30.0, 3.0, False),
     (None, 3.0, False)])
def test_growth_needs_a_fifth_and_five_seconds(
        before: float | None, after: float, grown: bool) -> None:
    def page(seconds: float | None) -> str:
        return "Not measured yet." if seconds is None else kept.table(
            "Steps", ("step", "seconds", "share"), [("a", seconds, "1 %")])

    expected = [("Steps", "a", before, after)] if grown else []
    assert kept.grown(page(before), page(after)) == expected


def test_the_page_has_the_marks() -> None:
    kept.part((ROOT / "docs/contribute/checks.md").read_text(encoding="utf-8"))
    with pytest.raises(kept.PageError):
        kept.part(f"{kept.END}\n{kept.BEGIN}")


def write(path: pathlib.Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


@pytest.fixture
def call(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch,
         capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs it on a tree in which something was built and tested: its status and what it says."""
    for line in LOG.splitlines()[1:-1]:
        output = line.split("\t")[3]
        if output != GONE:
            write(tmp_path / "build" / output)
    write(tmp_path / "build/.ninja_log", LOG)
    write(tmp_path / "build/steps.tsv", STEPS)
    write(tmp_path / "build/report-release.xml", CTEST)
    write(tmp_path / "build/reports/unit.xml", GOOGLETEST)
    page = f"before\n{kept.BEGIN}\nNot yet.\n{kept.END}\nafter\n"
    write(tmp_path / "docs/contribute/checks.md", page)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["times", "--root", str(tmp_path), *arguments])
        status = times.main()
        said = capsys.readouterr()
        return status, said.out, said.err

    return run


def test_the_tables(call: Callable[..., tuple[int, str, str]]) -> None:
    status, text, _ = call()
    assert status == 0
    for row in (
        "| build, Release | 30.0 | 75 % | 50.0 |",
        "| build: tests | 1 | 7.5 | 0 | 0 | 0.0 |",
        "| build: libraries | 1 | 4.0 | 0 | 1 | 0.5 |",
        "| build: unit | 2 | 3.0 |",
        "| build: fault | 1 | 12.5 |",
        "| build: cases in C++ | 1 | 0.2 |",
        "| build: HashIndexTest.Finds | 2.0 |",
    ):
        assert row in text
    assert "999" not in text  # of an older check
    assert "old.cc" not in text  # no longer built
    assert "chart" not in text  # skipped


def test_writing_keeps_the_rest_of_the_page_and_shows_what_has_grown(
        tmp_path: pathlib.Path, call: Callable[..., tuple[int, str, str]]) -> None:
    call("--write")
    page = (tmp_path / "docs/contribute/checks.md").read_text(encoding="utf-8")
    assert re.search(r"(?s)^before\n.*### Steps.*\nafter\n$", page)
    assert "Not yet." not in page
    write(tmp_path / "build/steps.tsv", STEPS.replace("\t30.00", "\t36.50"))
    status, out, err = call("-o", "json")
    assert status == 0
    assert json.loads(out)["grown"] == [["Steps", "build, Release", 30.0, 36.5]]
    assert "GROWN: Steps, build, Release: 30.0 s -> 36.5 s" in err
    for name in (".ninja_log", "steps.tsv", "report-release.xml", "reports/unit.xml"):
        (tmp_path / "build" / name).unlink()
    assert call()[0] == 0  # nothing ran
    (tmp_path / "docs/contribute/checks.md").unlink()
    assert call()[0] == 1


def test_steps_are_written_as_they_end(tmp_path: pathlib.Path) -> None:
    script = f"""set -euo pipefail; source {ROOT}/tools/common/steps.sh
        step ignored; end_check
        begin_check 'test quick'; step 'build, Release'; sleep 0.2; step tests; (:); end_check
        begin_check 'test full'; step packages; end_check"""
    subprocess.run(["bash", "-c", script], cwd=tmp_path, check=True)
    check = times.last_check(tmp_path / "build/steps.tsv")
    assert [step.name for step in check.steps] == ["packages", "total"]
    _, *rows = [
        line.split("\t") for line in (tmp_path / "build/steps.tsv").read_text().splitlines()]
    assert [row[2] for row in rows] == ["build, Release", "tests", "total", "packages", "total"]
    assert float(rows[0][3]) >= 0.19
    assert all(re.fullmatch(r"\d+\.\d\d", cell) for row in rows for cell in row[3:])
