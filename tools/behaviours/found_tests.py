"""Finds what the sources say is tested: GoogleTest cases, Python test methods, and all the rest."""

from __future__ import annotations

import ast
import collections.abc
import dataclasses
import io
import pathlib
import re
import subprocess
import sys
import tarfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "common"))
import tree  # noqa: E402

# {path from the root: text}
Tree = dict[str, str]
_FOLDERS = ("core", "services", "client", "tests", "tools")
_SUFFIXES = (".cc", ".py", ".sh", "CMakeLists.txt")
# What runs what is no test of ctest. ctest's tests are of the quick tier unless they say another.
_TIERS = {"fuzz": "ci", "planted bug": "fault planted", "failpoint": "fault", "fault": "fault"}
_TIER_WORDS = {"THOROUGH": "ci", "NIGHTLY": "nightly"}
_CASE = re.compile(
    r"^\s*(?:TYPED_TEST|TYPED_TEST_P|TEST|TEST_F|TEST_P)\(\s*(\w+)\s*,\s*(\w+)\s*\)", re.MULTILINE
)
_INSTANCES = re.compile(
    r"^\s*(?:INSTANTIATE_TEST_SUITE_P|INSTANTIATE_TYPED_TEST_SUITE_P)\(\s*(\w+)\s*,\s*(\w+)",
    re.MULTILINE,
)
_FAILPOINT = re.compile(r'\bDSLIDE_FAILPOINT\("([a-z0-9_.]+)"\)')


class SourceError(Exception):
    """The sources cannot be had or are not what is expected."""


@dataclasses.dataclass(frozen=True)
class Behaviour:
    kind: str
    where: str
    name: str
    tier: str

    @property
    def key(self) -> tuple[str, str, str]:
        return self.kind, self.where, self.name

    @property
    def case(self) -> str:
        """The name without its suite."""
        return self.name.rpartition(".")[2]

    def __str__(self) -> str:
        return f"{self.kind} {self.where} {self.name} [{self.tier}]"


def _relevant(path: str) -> bool:
    return path.startswith(tuple(f"{folder}/" for folder in _FOLDERS)) and path.endswith(_SUFFIXES)


def working_tree(root: pathlib.Path) -> Tree:
    found: Tree = {}
    for path in (path for folder in _FOLDERS for path in (root / folder).rglob("*")):
        relative = path.relative_to(root)
        skipped = tree.SKIPPED_PARTS.intersection(relative.parts)
        if _relevant(relative.as_posix()) and not skipped and path.is_file():
            found[relative.as_posix()] = path.read_text(encoding="utf-8")
    return found


def git_tree(root: pathlib.Path, revision: str) -> Tree:
    made = subprocess.run(
        ["git", "-C", root, "archive", "--format=tar", revision], capture_output=True, check=False
    )
    if made.returncode != 0:
        raise SourceError(f"git knows no revision {revision!r}: {made.stderr.decode().strip()}")
    found: Tree = {}
    with tarfile.open(fileobj=io.BytesIO(made.stdout)) as archive:
        for member in archive:
            content = archive.extractfile(member) if _relevant(member.name) else None
            if content is not None:
                found[member.name] = content.read().decode()
    return found


def _lists(sources: Tree, path: str) -> collections.abc.Iterator[str]:
    """The texts of the CMakeLists.txt around a file, the innermost first."""
    for folder in pathlib.PurePosixPath(path).parents:
        text = sources.get((folder / "CMakeLists.txt").as_posix())
        if text is not None:
            yield text


def _tier(sources: Tree, path: str) -> str:
    """What the innermost call that registers the file says."""
    name = pathlib.PurePosixPath(path).stem.removesuffix("_test")
    scripts = rf"(script_test|lint_test|pytest)\({name}\b"
    call = r"dslide_test\(" if path.endswith(".cc") else scripts
    for text in _lists(sources, path):
        found = re.search(rf"{call}[^)]*", text)
        if found:
            tiers = (tier for word, tier in _TIER_WORDS.items() if word in found.group(0))
            return next(tiers, "quick")
    return "quick"


def _place(path: str) -> tuple[str, str]:
    """(kind, where) of a file of tests: its folder in tests/, and what comes after that."""
    _, kind, *rest = pathlib.PurePosixPath(path).parts
    where = "/".join(rest[:-1]) or rest[-1].rpartition(".")[0].removesuffix("_test")
    return kind, where


def cpp_names(text: str) -> list[str]:
    """Cases, and the sets of parameters that they run with."""
    code = tree.code_only(text)
    return [f"{suite}.{case}" for suite, case in _CASE.findall(code)] + [
        f"{suite} with parameters {name}" for name, suite in _INSTANCES.findall(code)
    ]


def python_names(text: str) -> list[str]:
    """Test methods and functions; `check_tree` of a lint is one as well."""
    found = []
    for node in ast.parse(text).body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        found += [
            prefix + part.name
            for part in inner
            if isinstance(part, ast.FunctionDef) and re.match(r"test_|check_tree$", part.name)
        ]
    return found


def shell_names(text: str) -> list[str]:
    """What a script expects, line by line; a script without such lines is one check."""
    return re.findall(r"^\s*expect +(.*)", text, re.MULTILINE) or ["the whole script"]


def planted_bugs(text: str) -> list[str]:
    """The names in Plant("name", ...)."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    plants = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "Plant"]
    return [ast.literal_eval(plant.args[0]) for plant in plants]


def fault_parts(text: str) -> list[str]:
    """The keys of PARTS in the program that ./run fault calls."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "PARTS":
            return list(ast.literal_eval(node.value))
    return []


def simulator_bugs(text: str) -> list[str]:
    """The strings in kNames; the empty one is no bug."""
    names = re.search(r"kNames = \{(.*?)\}", text, re.DOTALL)
    return [name for name in re.findall(r'"([^"]*)"', names.group(1) if names else "") if name]


_LISTS = (
    ("planted bug", "tools/fault/planted_edits.py", planted_bugs),
    ("fault", "tools/fault/fault_run.py", fault_parts),
    ("simulator bug", "tests/simulation/bugs.cc", simulator_bugs),
)


def _others(sources: Tree) -> collections.abc.Iterator[tuple[str, str, str]]:
    """(kind, where, name) of what is tested and is no test case."""
    for path, text in sources.items():
        folder = str(pathlib.PurePosixPath(path).parent)
        if path.startswith(("core/", "services/")) and path.endswith(".cc"):
            yield from (("failpoint", folder, name) for name in _FAILPOINT.findall(text))
        elif path.endswith("_fuzz.cc"):
            yield "fuzz", folder.removeprefix("tests/"), pathlib.PurePosixPath(path).stem
    for kind, path, names_of in _LISTS:
        for name in names_of(sources.get(path, "")):
            yield kind, path.split("/")[1], name


def behaviours(sources: Tree) -> list[Behaviour]:
    """Sorted, each once."""
    found = {
        Behaviour(kind, where, name, _TIERS.get(kind, "quick"))
        for kind, where, name in _others(sources)
    }
    readers = {"_test.cc": cpp_names, "_test.py": python_names, "_test.sh": shell_names}
    for path, text in sources.items():
        read = readers.get(path[-len("_test.cc") :])
        if read and path.startswith("tests/"):
            tier = _tier(sources, path)
            found |= {Behaviour(*_place(path), name, tier) for name in read(text)}
    return sorted(found, key=lambda behaviour: behaviour.key)
