"""Plants the bugs of planted_edits.py one after the other, and demands that each is caught.

Copies the sources into a directory of its own, builds the test binaries that are named there and
sees the named tests pass. Then, for each bug: plants it, builds, and sees the named test fail;
takes it out again. A bug that leaves its test green has not been caught, and neither has one whose
test hangs. With a compiler cache a bug costs one or two sources and a link.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Self

from planted_edits import PLANTS, EditError, Plant

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Not sources, at the top of the tree.
_LEFT_OUT = ("build", "data", "models", "bench-results")
_TEST_SECONDS = 300
CAUGHT, MISSED, HUNG, BROKEN = "caught", "missed", "hung", "broken"


@dataclasses.dataclass
class Outcome:
    plant: Plant
    verdict: str  # CAUGHT or what went wrong
    detail: str = ""
    seconds: float = 0.0


def source_files(root: pathlib.Path) -> Iterator[pathlib.Path]:
    """Relative paths of what a build may read."""
    for top in sorted(root.iterdir()):
        if top.name.startswith((".", "build")) or top.name in _LEFT_OUT:
            continue
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            left_out = {"__pycache__", "node_modules"} & set(path.parts)
            if path.is_file() and not left_out:
                yield path.relative_to(root)


def mirror(source: pathlib.Path, copy: pathlib.Path) -> None:
    """Makes `copy` what `source` is; files that are equal are not touched, nor is its build."""
    wanted = set(source_files(source))
    for relative in wanted:
        origin, target = source / relative, copy / relative
        content = origin.read_bytes()
        if target.is_file() and target.read_bytes() == content:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(origin, target)
        shutil.copymode(origin, target)
    for relative in set(source_files(copy)) - wanted:
        (copy / relative).unlink()


class Planted:
    """A tree with one bug in it, for as long as the `with` lasts."""

    def __init__(self, tree: pathlib.Path, plant: Plant) -> None:
        self._tree, self._plant = tree, plant
        self._sound: dict[pathlib.Path, str] = {}  # {path: text}

    def __enter__(self) -> Self:
        texts = {}
        for edit in self._plant.edits:
            path = self._tree / edit.path
            if path not in texts:
                texts[path] = self._sound[path] = path.read_text(encoding="utf-8")
            texts[path] = edit.apply(texts[path])
        for path, text in texts.items():
            path.write_text(text, encoding="utf-8")
        return self

    def __exit__(self, *_: object) -> None:
        for path, text in self._sound.items():
            path.write_text(text, encoding="utf-8")


class Workshop:
    """The copy of the tree, and what is built of it."""

    def __init__(self, work_dir: pathlib.Path) -> None:
        self.tree = work_dir.resolve() / "tree"
        self._build = self.tree / "build"
        # Objects of other clones are found in the cache by names relative to the tree.
        self._environment = os.environ | {
            "CCACHE_BASEDIR": str(self.tree), "CCACHE_NOHASHDIR": "1",
            "CCACHE_SLOPPINESS": "pch_defines,time_macros,include_file_mtime,include_file_ctime"}

    def prepare(self) -> None:
        self.tree.mkdir(parents=True, exist_ok=True)
        mirror(ROOT, self.tree)
        # As `./run test` builds, so that its objects are found in the compiler cache.
        self._run(["cmake", "-S", self.tree, "--preset", "test"])

    def build(self, targets: set[str]) -> str | None:
        """None, or the end of the build's messages."""
        try:
            self._run(["ninja", "-C", self._build, "-j", os.environ.get("DSLIDE_JOBS")
                       or str(os.cpu_count()), *sorted(targets)])
        except RuntimeError as error:
            return str(error)
        return None

    def _run(self, command: Sequence[object]) -> None:
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True,
                              env=self._environment, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{command[0]} ended with {done.returncode}:\n"
                               f"{done.stdout + done.stderr}")

    def test(self, plant: Plant) -> tuple[int, int, str] | None:
        """(how many cases ran, how many failed, the end of what was said); None: it hung."""
        return run_cases(self._build / "bin" / plant.target, plant.test,
                         self._build / "planted-report.json")


def run_cases(binary: pathlib.Path, cases: str, report: pathlib.Path,
              seconds: float = _TEST_SECONDS) -> tuple[int, int, str] | None:
    """(how many cases ran, how many of them failed, what was said); None when it did not end."""
    report.unlink(missing_ok=True)
    try:
        done = subprocess.run(
            [binary, f"--gtest_filter={cases}", f"--gtest_output=json:{report}"],
            capture_output=True, text=True, errors="replace", timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return None
    said = done.stdout + done.stderr
    if not report.exists():
        # A binary that does not reach its report has crashed in the test.
        return 1, 1 if done.returncode != 0 else 0, said
    counts = json.loads(report.read_text(encoding="utf-8"))
    failed = counts["failures"] + counts["errors"]
    return counts["tests"], failed or (1 if done.returncode != 0 else 0), said


def first_failure(said: str) -> str:
    """The line of GoogleTest that tells what was expected."""
    lines = [line.strip() for line in said.splitlines()]
    for at, line in enumerate(lines):
        if ": Failure" in line and at + 1 < len(lines):
            return " ".join(lines[at + 1:at + 3])[:160]
    return lines[-1][:160] if lines else ""


def catch(workshop: Workshop, plant: Plant) -> Outcome:
    """Plants one bug and looks whether its test notices."""
    started = time.monotonic()

    def outcome(verdict: str, detail: str = "") -> Outcome:
        return Outcome(plant, verdict, detail, time.monotonic() - started)

    try:
        with Planted(workshop.tree, plant):
            refused = workshop.build({plant.target})
            if refused is not None:
                return outcome(BROKEN, f"it does not compile: {refused}")
            ran = workshop.test(plant)
    except EditError as error:
        return outcome(BROKEN, str(error))
    if ran is None:
        return outcome(HUNG, f"no end within {_TEST_SECONDS} s")
    cases, failed, said = ran
    if cases == 0:
        return outcome(BROKEN, "there is no test of that name")
    return outcome(CAUGHT, first_failure(said)) if failed else outcome(MISSED, "the test passed")


def check_sound(workshop: Workshop, plants: Sequence[Plant]) -> None:
    """Without a bug every test passes; else RuntimeError."""
    refused = workshop.build({plant.target for plant in plants})
    if refused is not None:
        raise RuntimeError(f"the sources as they are do not compile: {refused}")
    for plant in plants:
        ran = workshop.test(plant)
        if ran is None or ran[0] == 0 or ran[1] > 0:
            why = "hangs" if ran is None else "does not exist" if ran[0] == 0 else \
                f"fails:\n{ran[2]}"
            raise RuntimeError(f"without a bug, {plant.target} {plant.test} {why}")


def run(say: Callable[[str], None], name: str = "") -> list[Outcome]:
    """The outcomes of the bugs, or of that one alone, in order.

    RuntimeError when the sources without a bug are no good.
    """
    plants = [plant for plant in PLANTS if name in ("", plant.name)]
    if not plants:
        raise RuntimeError(f"there is no bug {name!r}; there are: "
                           f"{', '.join(plant.name for plant in PLANTS)}")
    workshop = Workshop(ROOT / "build-planted")
    say("building the sources as they are, and their tests")
    workshop.prepare()
    check_sound(workshop, plants)
    outcomes = []
    for plant in plants:
        found = catch(workshop, plant)
        say(f"{found.verdict}: {plant.name} ({found.seconds:.0f} s): {found.detail}")
        outcomes.append(found)
    # The next run starts from objects without a bug.
    mirror(ROOT, workshop.tree)
    return outcomes
