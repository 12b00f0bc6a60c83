"""What the docs name exists: links, paths, `./run` commands, subcommands of `dslide`, calls,
functions, model specs. Their lines are short, and so is the first page.
"""

import functools
import json
import pathlib
import posixpath
import re
import subprocess
from collections.abc import Callable, Collection, Iterator

import pytest
import tree

# Gives a file's text, '' for a folder, or None when there is none.
Reader = Callable[[str], str | None]
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!\!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")


def anchors(text: str) -> set[str]:
    """The anchors that a renderer makes of the headings."""
    found = set()
    for heading in re.findall(r"^#+ +(.*?) *$", _FENCE.sub("", text), re.MULTILINE):
        plain = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        found.add(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return found


def check_links(path: str, text: str, read: Reader) -> Iterator[str]:
    for match in _LINK.finditer(_FENCE.sub("", text)):
        link = match.group(1) or match.group(2)
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        there = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        text_there = None if there.startswith("..") else read(there if target else path)
        if text_there is None:
            yield f"{path}: link to {link}, which does not exist"
        elif anchor and anchor not in anchors(text_there):
            yield f"{path}: link to {link}: no such heading"


def run_commands() -> set[str]:
    """The tasks that ./run has."""
    return {path.parent.name for path in tree.ROOT.glob("tools/*/task.sh")} | {"help"}


def check_run_mentions(path: str, text: str, known: Collection[str]) -> Iterator[str]:
    for command in re.findall(r"\./run +([a-z][a-z-]*)", text):
        if command not in known:
            yield f"{path}: ./run {command} does not exist (there are: {', '.join(sorted(known))})"


def dslide_mentions(text: str) -> set[str]:
    """Subcommands of dslide that stand in code: `dslide train ...` or $ build/bin/dslide train."""
    code = (
        "\n".join(_FENCE.findall(text))
        + "\n"
        + "\n".join(re.findall(r"`([^`\n]+)`", _FENCE.sub("", text)))
    )
    return set(re.findall(r"(?:^|[\s/])dslide +((?:data +)?[a-z][a-z-]+)\b", code, re.MULTILINE))


def subcommands(help_text: str) -> set[str]:
    """The names under "Subcommands:" of a help text."""
    listed = help_text.partition("\nSubcommands:\n")[2].split("\n\n")[0]
    return set(re.findall(r"^  ([a-z][a-z-]*)", listed, re.MULTILINE))


def check_dslide_mentions(
    path: str, text: str, accepts: Callable[[list[str]], bool]
) -> Iterator[str]:
    for words in sorted(dslide_mentions(text)):
        if not accepts(words.split()):
            yield f"{path}: `dslide {words}` does not exist"


_PATH = re.compile(
    r"`((?:bench|client|core|deploy|docs|helm|protos|services|tests|tools)/[\w/.-]+)`"
)


def check_paths(path: str, text: str, read: Reader) -> Iterator[str]:
    """Paths of the tree that stand in code."""
    for name in sorted(set(_PATH.findall(text))):
        if read(name.rstrip("/")) is None:
            yield f"{path}: {name} does not exist"


def check_calls(path: str, text: str, protos: str) -> Iterator[str]:
    """The page of the wire names every call."""
    for call in re.findall(r"^  rpc (\w+)\(", protos, re.MULTILINE):
        if f"`{call}`" not in text:
            yield f"{path}: the call {call} is missing"


_WALK = re.compile(r"^\| `([\w/.]+)` \| (`[^|]*`) \|", re.MULTILINE)


def check_walk(path: str, text: str, read: Reader) -> Iterator[str]:
    """Rows of a file and of functions in it, as the walk through the code has them."""
    for name, functions in _WALK.findall(text):
        source = read(name)
        for function in re.findall(r"`(?:\w+::)*(\w+)`", functions):
            if source is None or not re.search(rf"\b{function}\(", source):
                yield f"{path}: {name} has no {function}(): walk the new way"


# A line that a reader of a diff, or of a terminal, sees whole.
_LINE = 120
# Markdown has a row of a table on one line: there it is the cell that has to be short. Longer ones
# are a paragraph below the table.
_CELL = 200
_FIRST_PAGE_LINES = 90
# Rows are made of what programs and values say.
_MADE_TABLES = ("docs/operate/metrics.md", "helm/dslide/README.md")


def check_lines(path: str, text: str) -> Iterator[str]:
    if path == "README.md" and text.count("\n") > _FIRST_PAGE_LINES:
        yield f"{path}: more than {_FIRST_PAGE_LINES} lines; move what is no door to a page"
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) <= _LINE:
            continue
        if not line.startswith("|"):
            yield f"{path}:{number}: {len(line)} characters; break it before {_LINE}"
        elif path not in _MADE_TABLES:
            longest = max(len(cell.strip()) for cell in re.split(r"(?<!\\)\|", line))
            if longest > _CELL:
                yield f"{path}:{number}: a cell of {longest} characters; say it below the table"


def repository_reader(path: str) -> str | None:
    target = tree.ROOT / path
    if target.is_dir():
        return ""
    return target.read_text(encoding="utf-8", errors="replace") if target.is_file() else None


def markdown_files() -> list[str]:
    return sorted(path.name for path in tree.ROOT.glob("*.md")) + tree.files(
        {".md"}, ["docs", "core", "services", "client", "tests", "bench", "deploy", "helm"]
    )


def check_tree() -> Iterator[str]:
    known = run_commands()
    for path in markdown_files():
        text = tree.read(path)
        yield from check_links(path, text, repository_reader)
        yield from check_lines(path, text)
        # Decisions and changes are of their time.
        if not path.startswith(("docs/adr/", "docs/roadmap.md")) and "CHANGELOG" not in path:
            yield from check_paths(path, text, repository_reader)
        # What the roadmap plans does not exist yet.
        if path != "docs/roadmap.md":
            yield from check_run_mentions(path, text, known)
    wire = "docs/understand/wire.md"
    protos = "\n".join(tree.read(proto) for proto in tree.files({".proto"}, ["protos/dslide"]))
    yield from check_calls(wire, tree.read(wire), protos)
    architecture = "docs/understand/architecture.md"
    yield from check_walk(architecture, tree.read(architecture), repository_reader)
    for path in tree.files({".json"}, ["docs/models"]):
        try:
            if json.loads(tree.read(path)).get("name") != pathlib.Path(path).stem:
                yield f"{path}: its name is not that of the file"
        except ValueError as error:
            yield f"{path}: {error}"


def test_what_the_docs_name_exists() -> None:
    problems = list(check_tree())
    assert not problems, "\n".join(problems)


def test_subcommands_that_the_docs_name_exist(bin_dir: pathlib.Path) -> None:
    @functools.cache
    def below(*words: str) -> set[str]:
        command = [str(bin_dir / "dslide"), *words, "--help"]
        shown = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
        return subcommands(shown.stdout)

    def accepts(words: list[str]) -> bool:
        # Asked for help, a program may forgive a wrong subcommand: look for it in the list.
        return words[-1] in below(*words[:-1])

    for path in markdown_files():
        # What --help says is made by cli_page_test.py.
        if path not in ("docs/roadmap.md", "docs/start/cli.md"):
            problems = list(check_dslide_mentions(path, tree.read(path), accepts))
            assert not problems, "\n".join(problems)


_TREE = {"README.md": "# One Two\n", "docs/a.md": "## Own\n", "docs": ""}


@pytest.mark.parametrize(
    ("path", "text", "legal"),
    [
        ("docs/a.md", "[x](../README.md#one-two) [y](https://a.b/c) [z](#own)", True),
        ("README.md", "[x](docs/a.md) [d](docs)\n```\n[z](nowhere)\n```\n", True),
        ("docs/a.md", "[x](README.md)", False),
        ("README.md", "[x](docs/b.md)", False),
        ("README.md", "![x](docs/b.svg)", False),
        ("docs/a.md", "[x](../README.md#three)", False),
        ("README.md", "[x](../../etc/passwd)", False),
    ],
)
def test_links(path: str, text: str, legal: bool) -> None:
    assert (not list(check_links(path, text, _TREE.get))) == legal


def test_paths() -> None:
    assert not list(check_paths("x.md", "`docs/a.md` `docs/`", _TREE.get))
    assert list(check_paths("x.md", "`docs/b.md`", _TREE.get))


def test_calls() -> None:
    protos = "service S {\n  rpc Ask(A) returns (B);\n}\n"
    assert not list(check_calls("w.md", "`Ask`", protos))
    assert list(check_calls("w.md", "`AskMore`", protos))


@pytest.mark.parametrize(
    ("row", "legal"),
    [
        ("| `a/b.cc` | `A::One` | x |", True),
        ("| `a/b.cc` | `One`, `Two` | |", False),
        ("| `a/c.cc` | `One` | |", False),
    ],
)
def test_walk(row: str, legal: bool) -> None:
    sources = {"a/b.cc": "int A::One(int) {}\n"}
    assert (not list(check_walk("w.md", row, sources.get))) == legal


@pytest.mark.parametrize(
    ("path", "text", "legal"),
    [
        ("a.md", f"{'x' * 120}\n| {'x' * 121} | y |\n", True),
        ("a.md", "x" * 121, False),
        ("a.md", f"| {'x' * 242} |", False),
        ("README.md", "x\n" * 90, True),
        ("README.md", "x\n" * 91, False),
    ],
)
def test_lines(path: str, text: str, legal: bool) -> None:
    assert (not list(check_lines(path, text))) == legal


def test_commands() -> None:
    known = run_commands()
    assert not list(check_run_mentions("a.md", "`./run test`", known))
    assert list(check_run_mentions("a.md", "`./run tets`", known))
    text = "`dslide train`, dslide is\n```\n$ build/bin/dslide data gen --x\n```\n"
    assert dslide_mentions(text) == {"train", "data gen"}
    listed = "Usage\n\nSubcommands:\n  train   Train\n  data    Make\n\nExamples:\n  gen\n"
    assert subcommands(listed) == {"train", "data"}
    assert list(check_dslide_mentions("a.md", text, lambda words: False))
    assert not list(check_dslide_mentions("a.md", text, lambda words: True))
