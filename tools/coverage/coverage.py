"""Which lines of core and services the tests run: builds with clang's coverage, runs, counts.

Processes that are killed count up to their last instruction: their counters are mapped from files.
The figure of a run whose tests failed is printed and is not one to keep (status 1). Nor is, with
--against, that of a run in which core or services is more than 0.2 points lower than in FILE, an
earlier result of -o json.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys

import lines

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = "build-coverage"
# What busy machines move from run to run, in points: paths that are taken when time runs out.
SLACK = 0.2
# Counting makes programs a few times slower: Python tests wait longer.
_SLOWDOWN = "3"
_LABELS = {"unit": "^unit$", "all": "^(unit|integration)$"}


class StepError(Exception):
    """A command failed."""


def call(*command: object) -> int:
    """The status of the command, whose output goes to stderr."""
    # With a base folder ccache would give the compiler relative paths, which name nothing here.
    kept = {key: value for key, value in os.environ.items() if key != "CCACHE_BASEDIR"}
    environment = {"DSLIDE_TEST_SLOWDOWN": _SLOWDOWN, **kept}
    words = [str(word) for word in command]
    return subprocess.run(
        words, env=environment, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False
    ).returncode


def demand(*command: object) -> None:
    if call(*command) != 0:
        raise StepError(f"{command[0]} failed; its messages are above")


def compile_flags(root: pathlib.Path) -> str:
    """A program's processes share one file (%m), which holds their counters as they run (%c)."""
    presets = json.loads((ROOT / "CMakePresets.json").read_text(encoding="utf-8"))
    preset = next(each for each in presets["configurePresets"] if each["name"] == "coverage")
    return str(preset["cacheVariables"]["CMAKE_CXX_FLAGS"]).replace("${sourceDir}", str(root))


def counted(root: pathlib.Path) -> str:
    """Which functions get counters, for clang: not those of tests and of generated sources."""
    return "[clang]\n" + "".join(f"src:{root}/{part}/*\n" for part in lines.PARTS)


def configure(root: pathlib.Path, build: pathlib.Path) -> None:
    build.mkdir(parents=True, exist_ok=True)
    (build / "counted.txt").write_text(counted(root), encoding="utf-8")
    # Highway's header includes a kernel's source once more for each instruction set. To clang, what
    # a header of the system includes is of the system and has no lines: so it is found elsewhere.
    command = ["pkg-config", "--variable=includedir", "libhwy"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    (build / "include").mkdir(exist_ok=True)
    (build / "include/hwy").unlink(missing_ok=True)
    (build / "include/hwy").symlink_to(pathlib.Path(shown or "/usr/include", "hwy"))
    demand("cmake", "-S", root, "--preset", "coverage")


def run_tests(build: pathlib.Path, tests: str, only: list[str], jobs: int) -> bool:
    """True when all passed."""
    shutil.rmtree(build / "profiles", ignore_errors=True)
    if only:
        return all([call(build / "bin" / program) == 0 for program in only])
    options = ("--output-on-failure", "--no-tests=error", "--label-regex", _LABELS[tests])
    return call("ctest", "--test-dir", build, "-j", jobs, *options) == 0


def counted_programs(build: pathlib.Path, only: list[str]) -> list[pathlib.Path]:
    """The programs with counters: the section that maps them to lines is named in each."""
    found = [path for path in sorted((build / "bin").glob("*")) if path.is_file()]
    asked = [path for path in found if not only or path.name in only]
    return [path for path in asked if b"__llvm_covmap" in path.read_bytes()]


def measure(root: pathlib.Path, build: pathlib.Path, only: list[str]) -> lines.Files:
    profiles = sorted((build / "profiles").glob("*.profraw"))
    programs = counted_programs(build, only)
    if not profiles or not programs:
        raise StepError(f"{build}: no test has left a profile; run them (--tests unit or all)")
    merged, report = build / "merged.profdata", build / "coverage.lcov"
    # A process that was killed as it began may have left a file without a header.
    demand("llvm-profdata", "merge", "-sparse", "-failure-mode=all", "-o", merged, *profiles)
    command = ["llvm-cov", "export", "-format=lcov", f"-instr-profile={merged}", str(programs[0])]
    for program in programs[1:]:
        command += ["-object", str(program)]
    command += [str(root / part) for part in lines.PARTS]
    with report.open("w", encoding="utf-8") as out:
        if subprocess.run(command, stdout=out, check=False).returncode != 0:
            raise StepError("llvm-cov failed; its messages are above")
    return lines.parse(report.read_text(encoding="utf-8"), root)


def lower(before: lines.Summary, after: lines.Summary) -> list[str]:
    """The parts of `after` that are lower than they were, by more than SLACK."""
    pairs = [
        (part, before["parts"][part]["percent"], after["parts"][part]["percent"])
        for part in lines.PARTS
    ]
    return [f"{part}: {old:.2f} % -> {new:.2f} %" for part, old, new in pairs if old - new > SLACK]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./run coverage",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--tests", choices=("unit", "all", "none"), default="all",
        help="all: unit, integration and fault tests (default); none: count the last run again")
    add("--only", action="append", default=[], metavar="PROGRAM",
        help="build and run this test program alone; may be repeated")
    add("--uncovered", action="append", default=[], metavar="FILE",
        help="print the lines of FILE that no test ran; may be repeated")
    add("--against", type=pathlib.Path, metavar="FILE", help="compare with an earlier result")
    add("--root", type=pathlib.Path, default=ROOT, metavar="DIR",
        help="measure another checkout (default: this one)")
    add("--jobs", type=int, default=os.cpu_count(), help="processes at once")
    add("-o", "--output", choices=("text", "json"), default="text",
        help="json: the last line of stdout is one JSON object")  # fmt: skip
    return parser.parse_args()


def main() -> int:
    options = parse_arguments()
    root = options.root.resolve()
    build = root / BUILD
    passed, before = True, None
    try:
        if options.against:
            before = json.loads(options.against.read_text(encoding="utf-8"))
        if options.tests != "none":
            configure(root, build)
            targets = ["--target", *options.only] if options.only else []
            os.chdir(root)  # where cmake looks for presets
            demand("cmake", "--build", "--preset", "coverage", "-j", options.jobs, *targets)
            passed = run_tests(build, options.tests, options.only, options.jobs)
        files = measure(root, build, options.only)
    except (StepError, OSError, ValueError, subprocess.CalledProcessError) as error:
        print(f"coverage: {error}", file=sys.stderr)
        return 1
    result = lines.summary(files)
    print(json.dumps(result) if options.output == "json" else lines.table(result))
    notes = [f"{path}: {lines.spans(files.get(path, {}))}" for path in options.uncovered]
    absent = lines.absent(files, root)
    if absent and not options.only:
        notes.append(f"in no program, or without a line of code: {', '.join(absent)}")
    fallen = lower(before, result) if before else []
    notes += [f"LOWER: {line}" for line in fallen]
    if not passed:
        notes.append("coverage: tests failed, so the figure is too low")
    print(*notes, sep="\n", end="\n" if notes else "", file=sys.stderr)
    return 0 if passed and not fallen else 1


if __name__ == "__main__":
    sys.exit(main())
