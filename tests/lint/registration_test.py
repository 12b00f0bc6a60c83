"""Every test on disk runs: each *_test.cc is compiled into a binary, and ctest runs that."""

import json
import pathlib
import re
import subprocess
from collections.abc import Iterator, Mapping

import pytest
import tree

# {name of a binary: its cases}; None for one that is not built.
Listed = Mapping[str, list[str] | None]

# Folders of tests/ whose tests are scripts.
_SCRIPT_PARTS = (
    "lint", "integration", "fault", "bench", "deploy", "chart", "observability", "tools",
)
_TEST = re.compile(
    r"^\s*(TYPED_TEST|TYPED_TEST_P|TEST|TEST_F|TEST_P)\(\s*(\w+)\s*,\s*(\w+)\s*\)", re.MULTILINE
)


def cases(text: str) -> list[tuple[str, str]]:
    """(suite, case) of each test in the text; comments do not count."""
    return [(match.group(2), match.group(3)) for match in _TEST.finditer(tree.code_only(text))]


def check_file(path: str, text: str, binaries: Mapping[str, str], listed: Listed) -> Iterator[str]:
    """binaries: {source path: binary name}."""
    binary = binaries.get(path)
    if binary is None:
        yield f"{path}: no target of the build compiles it"
        return
    names = listed.get(binary, [])
    found = cases(text)
    if not found:
        yield f"{path}: holds no tests"
    # What a binary that is not built will list is not known: whoever builds it checks it.
    for suite, case in found if names is not None else []:
        pattern = re.compile(rf"(^|/){re.escape(suite)}(/[^.]*)?\.{re.escape(case)}(/.*)?$")
        if case.startswith("DISABLED_") or suite.startswith("DISABLED_"):
            continue
        # A suite of value-parameterised tests that nobody instantiates never runs.
        if not any(pattern.search(name) for name in names or ()):
            yield f"{path}: {binary} does not list {suite}.{case}"
    for number, line in enumerate(text.split("\n"), 1):
        if "DISABLED_" in line and not re.search(r"#\d+", line):
            yield f"{path}:{number}: a disabled test names its issue on the same line (#42)"


def compiled(build_dir: pathlib.Path) -> dict[str, str]:
    """{source path: binary name} of the build's compile commands."""
    result: dict[str, str] = {}
    for entry in json.loads((build_dir / "compile_commands.json").read_text()):
        # The object's own path: a precompiled header, named earlier, belongs to another target.
        match = re.search(r" -o \S*CMakeFiles/([^/ ]+)\.dir/", entry["command"])
        if match:
            result |= dict.fromkeys(tree.compiled_sources(entry), match.group(1))
    return result


def listed_cases(program: str) -> list[str]:
    """The names of a GoogleTest program's cases."""
    shown = subprocess.run(
        [program, "--gtest_list_tests"], check=True, capture_output=True, text=True
    ).stdout
    suite, names = "", list[str]()
    for line in shown.splitlines():
        word = line.split("#")[0].strip()
        if line.startswith("  "):
            names.append(suite + word)
        elif word.endswith("."):
            suite = word
    return names


def ctest_names(build_dir: pathlib.Path) -> Listed:
    """The cases of what ctest runs."""
    shown = subprocess.run(
        ["ctest", "--test-dir", str(build_dir), "--label-regex", "^cases$", "--show-only=json-v1"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    programs = {test["command"][0] for test in json.loads(shown)["tests"] if "command" in test}
    return {
        pathlib.Path(program).name: listed_cases(program)
        if pathlib.Path(program).is_file()
        else None
        for program in programs
    }


def check_tree(build_dir: pathlib.Path) -> Iterator[str]:
    binaries = compiled(build_dir)
    listed = ctest_names(build_dir)
    for binary, names in sorted(listed.items()):
        if names is None:
            print(f"NOTE: {binary} is not built, its tests are not compared with ctest's")
    for path in tree.files({".cc"}, ["tests"]):
        if path.endswith("_test.cc"):
            yield from check_file(path, tree.read(path), binaries, listed)
        elif _TEST.search(tree.code_only(tree.read(path))) and path not in binaries:
            yield f"{path}: holds tests, but is not named *_test.cc"
    fuzz_targets = tree.read("tests/fuzz/CMakeLists.txt")
    for path in tree.files({".cc"}, ["tests/fuzz"]):
        name = pathlib.Path(path).name
        if path.endswith("_fuzz.cc") and "GLOB" not in fuzz_targets and name not in fuzz_targets:
            yield f"{path}: not in tests/fuzz/CMakeLists.txt"
    for path in tree.files({".py", ".sh"}, [f"tests/{part}" for part in _SCRIPT_PARTS]):
        name, lists = pathlib.Path(path).name, pathlib.Path(path).with_name("CMakeLists.txt")
        if name.endswith(("_test.py", "_test.sh")):
            # Named in full, or as the argument of dslide_pytest().
            known = rf"\b{re.escape(name)}\b|pytest\({re.escape(name[:-8])}[ )]"
            if not re.search(known, tree.read(lists.as_posix())):
                yield f"{path}: not in {lists}"


def test_every_test_is_registered(bin_dir: pathlib.Path) -> None:
    problems = list(check_tree(bin_dir.parent))
    assert not problems, "\n".join(problems)


# What is planted is found, and its nearest legal neighbour is accepted.
_PARAMETERS = "TEST_P(HashTest, Finds) {}\n// TEST(Not, AtAll) {}\n"


@pytest.mark.parametrize(
    ("text", "listed", "legal"),
    [
        (_PARAMETERS, {"a": ["All/HashTest.Finds/0"]}, True),
        ("TEST(A, B) {}\n", {"a": ["A.B"]}, True),
        ("TYPED_TEST(A, B) {}\n", {"a": ["A/0.B", "A/1.B"]}, True),
        (_PARAMETERS, {"a": ["All/HashTest.Finds2/0", "HashTest.Fin"]}, False),
        ("int x;\n", {"a": []}, False),
        # A binary that registers nothing with ctest, and one that is not built.
        (_PARAMETERS, {}, False),
        (_PARAMETERS, {"a": None}, True),
        ("TEST(A, DISABLED_B) {}\n", {"a": []}, False),
        ("TEST(A, DISABLED_B) {}  // #42\n", {"a": []}, True),
    ],
)
def test_a_test_file(text: str, listed: Listed, legal: bool) -> None:
    assert (not list(check_file("a_test.cc", text, {"a_test.cc": "a"}, listed))) == legal


def test_a_file_that_nothing_compiles() -> None:
    assert list(check_file("a_test.cc", _PARAMETERS, {}, {}))
