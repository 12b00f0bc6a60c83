"""Counts of lines, out of a made-up report; and, where there is a clang, of a small program."""

import pathlib
import shutil
import subprocess
from typing import Any

import coverage
import lines
import pytest

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
FILES = lines.parse(REPORT, pathlib.Path("/r"))


def test_sums_of_core_and_services_by_the_best_instance() -> None:
    assert FILES == {"core/math/kernel.h": {1: 3, 2: 7, 4: 0},
                     "services/shard/log.cc": {1: 0, 2: 0, 3: 1, 9: 0}}
    assert lines.spans(FILES["services/shard/log.cc"]) == "1-2, 9"
    result = lines.summary(FILES)
    assert result["total"] == {"files": 2, "lines": 7, "covered": 3, "percent": 42.86}
    assert result["parts"]["core"] == result["folders"]["core/math"]
    assert result["parts"]["services"]["percent"] == 25.0
    assert "| services/shard | 1 | 4 | 1 | 25.00 % |" in lines.table(result)
    assert lines.summary({})["total"]["percent"] == 0.0


@pytest.mark.parametrize(("core", "services", "lower"), [
    (91.0, 79.5, ["services: 80.00 % -> 79.50 %"]), (89.9, 80.0, [])])
def test_lower_than_before(core: float, services: float, lower: list[str]) -> None:
    def result(core: float, services: float) -> Any:
        return {"parts": {"core": {"percent": core}, "services": {"percent": services}}}

    assert coverage.lower(result(90.0, 80.0), result(core, services)) == lower


@pytest.fixture
def build(tmp_path: pathlib.Path) -> pathlib.Path:
    """The build folder of a root with a program that kills itself."""
    for tool in ("clang++", "llvm-profdata", "llvm-cov"):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed")
    root = tmp_path.resolve()
    build = root / coverage.BUILD
    for path, text in {
        root / "core/one.cc": ONE,
        root / "tests/two.cc": TWO,
        build / "bin/script": "#!/bin/sh\n",
        build / "counted.txt": coverage.counted(root),
        build / "unity.cxx": f'#include "{root}/core/one.cc"\n',
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    subprocess.run(
        ["clang++", *coverage.compile_flags(root).split(), build / "unity.cxx",
         root / "tests/two.cc", "-o", build / "bin/program"], check=True)
    return build


def test_what_a_killed_process_did_counts_and_sources_may_be_compiled_as_one(
        build: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with pytest.raises(coverage.StepError, match="no test has left a profile"):
        coverage.measure(tmp_path.resolve(), build, [])
    assert coverage.call(build / "bin/program") == -9
    files = coverage.measure(tmp_path.resolve(), build, [])
    assert list(files) == ["core/one.cc"]
    assert files["core/one.cc"][6] > 0
