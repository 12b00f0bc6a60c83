"""What the docs name exists: relative links, `./run` commands, `dslide` subcommands, model specs.
Their lines are short, and so is the first page.

usage: docs_test.py [PATH_OF_DSLIDE]     without the binary, subcommands are not checked
"""

import functools
import json
import pathlib
import re
import subprocess
import sys
import unittest

import tree

_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!\!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")


def anchors(text):
    """The anchors that a renderer makes of the headings."""
    found = set()
    for heading in re.findall(r"^#+ +(.*?) *$", _FENCE.sub("", text), re.MULTILINE):
        plain = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        found.add(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return found


def check_links(path, text, read):
    """read(path) gives a file's text, '' for a folder, or None when there is none."""
    folder = pathlib.PurePosixPath(path).parent
    for match in _LINK.finditer(_FENCE.sub("", text)):
        link = match.group(1) or match.group(2)
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        parts = []
        for part in (folder / target).parts if target else pathlib.PurePosixPath(path).parts:
            if part == "..":
                if not parts:
                    parts = None
                    break
                parts.pop()
            elif part != ".":
                parts.append(part)
        text_there = None if parts is None else read("/".join(parts))
        if text_there is None:
            yield f"{path}: link to {link}, which does not exist"
        elif anchor and anchor not in anchors(text_there):
            yield f"{path}: link to {link}: no such heading"


def run_commands(root):
    """The tasks that ./run has."""
    return {path.parent.name for path in root.glob("tools/*/task.sh")} | {"help"}


def check_run_mentions(path, text, known):
    for command in re.findall(r"\./run +([a-z][a-z-]*)", text):
        if command not in known:
            yield f"{path}: ./run {command} does not exist (there are: {', '.join(sorted(known))})"


def dslide_mentions(text):
    """Subcommands of dslide that stand in code: `dslide train ...` or $ build/bin/dslide train."""
    code = "\n".join(_FENCE.findall(text)) + "\n" + "\n".join(
        re.findall(r"`([^`\n]+)`", _FENCE.sub("", text))
    )
    return set(re.findall(r"(?:^|[\s/])dslide +((?:data +)?[a-z][a-z-]+)\b", code, re.MULTILINE))


def subcommands(help_text):
    """The names under "Subcommands:" of a help text."""
    listed = help_text.partition("\nSubcommands:\n")[2].split("\n\n")[0]
    return set(re.findall(r"^  ([a-z][a-z-]*)", listed, re.MULTILINE))


def check_dslide_mentions(path, text, accepts):
    for words in sorted(dslide_mentions(text)):
        if not accepts(words.split()):
            yield f"{path}: `dslide {words}` does not exist"


_PATH = re.compile(
    r"`((?:bench|client|core|deploy|docs|helm|protos|services|tests|tools)/[\w/.-]+)`")


def check_paths(path, text, read):
    """Paths of the tree that stand in code."""
    for name in sorted(set(_PATH.findall(text))):
        if read(name.rstrip("/")) is None:
            yield f"{path}: {name} does not exist"


def check_calls(path, text, protos):
    """The page of the wire names every call."""
    for call in re.findall(r"^  rpc (\w+)\(", protos, re.MULTILINE):
        if f"`{call}`" not in text:
            yield f"{path}: the call {call} is missing"


_WALK = re.compile(r"^\| `([\w/.]+)` \| (`[^|]*`) \|", re.MULTILINE)


def check_walk(path, text, read):
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
# The plan is rewritten as a whole when it changes.
_LONG_LINES = ("docs/roadmap.md",)


def check_lines(path, text):
    if path == "README.md" and text.count("\n") > _FIRST_PAGE_LINES:
        yield f"{path}: more than {_FIRST_PAGE_LINES} lines; move what is no door to a page"
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) <= _LINE or path in _LONG_LINES:
            continue
        if not line.startswith("|"):
            yield f"{path}:{number}: {len(line)} characters; break it before {_LINE}"
        elif path not in _MADE_TABLES:
            longest = max(len(cell.strip()) for cell in re.split(r"(?<!\\)\|", line))
            if longest > _CELL:
                yield f"{path}:{number}: a cell of {longest} characters; say it below the table"


def repository_reader(path):
    target = tree.ROOT / path
    if target.is_dir():
        return ""
    return target.read_text(encoding="utf-8", errors="replace") if target.is_file() else None


def markdown_files():
    return sorted(path.name for path in tree.ROOT.glob("*.md")) + tree.files(
        {".md"}, ["docs", "core", "services", "client", "tests", "bench", "deploy", "helm"]
    )


def check_tree(binary):
    known = run_commands(tree.ROOT)

    @functools.cache
    def below(words):
        shown = subprocess.run(
            [binary, *words, "--help"], capture_output=True, text=True, timeout=20, check=True
        )
        return subcommands(shown.stdout)

    def accepts(words):
        # Asked for help, a program may forgive a wrong subcommand: look for it in the list.
        return words[-1] in below(tuple(words[:-1]))

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
            # What --help says is made by cli_page_test.py.
            if binary and path != "docs/start/cli.md":
                yield from check_dslide_mentions(path, text, accepts)
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


class PlantedTest(unittest.TestCase):
    TREE = {"README.md": "# One Two\n", "docs/a.md": "", "docs": ""}

    def links(self, path, text):
        return list(check_links(path, text, self.TREE.get))

    def test_links(self):
        self.assertFalse(self.links("docs/a.md", "[x](../README.md#one-two) [y](https://a.b/c)"))
        self.assertFalse(self.links("README.md", "[x](docs/a.md) [d](docs)\n```\n[z](nowhere)\n```\n"))
        self.assertTrue(self.links("docs/a.md", "[x](README.md)"))
        self.assertTrue(self.links("README.md", "[x](docs/b.md)"))
        self.assertTrue(self.links("README.md", "![x](docs/b.svg)"))
        self.assertTrue(self.links("docs/a.md", "[x](../README.md#three)"))
        self.assertTrue(self.links("README.md", "[x](../../etc/passwd)"))
        self.assertFalse(list(check_paths("x.md", "`docs/a.md` `docs/`", self.TREE.get)))
        self.assertTrue(list(check_paths("x.md", "`docs/b.md`", self.TREE.get)))

    def test_calls(self):
        protos = "service S {\n  rpc Ask(A) returns (B);\n}\n"
        self.assertFalse(list(check_calls("w.md", "`Ask`", protos)))
        self.assertTrue(list(check_calls("w.md", "`AskMore`", protos)))

    def test_walk(self):
        sources = {"a/b.cc": "int A::One(int) {}\n"}
        self.assertFalse(list(check_walk("w.md", "| `a/b.cc` | `A::One` | x |", sources.get)))
        self.assertTrue(list(check_walk("w.md", "| `a/b.cc` | `One`, `Two` | |", sources.get)))
        self.assertTrue(list(check_walk("w.md", "| `a/c.cc` | `One` | |", sources.get)))

    def test_lines(self):
        long = "x" * 121
        self.assertFalse(list(check_lines("a.md", f"{long[1:]}\n| {long} | y |\n")))
        self.assertTrue(list(check_lines("a.md", long)))
        self.assertTrue(list(check_lines("a.md", f"| {long}{long} |")))
        self.assertFalse(list(check_lines("README.md", "x\n" * 90)))
        self.assertTrue(list(check_lines("README.md", "x\n" * 91)))

    def test_commands(self):
        known = run_commands(tree.ROOT)
        self.assertFalse(list(check_run_mentions("a.md", "`./run test`", known)))
        self.assertTrue(list(check_run_mentions("a.md", "`./run tets`", known)))
        text = "`dslide train`, dslide is\n```\n$ build/bin/dslide data gen --x\n```\n"
        self.assertEqual(dslide_mentions(text), {"train", "data gen"})
        listed = subcommands("Usage\n\nSubcommands:\n  train   Train\n  data    Make\n\nExamples:\n  gen\n")
        self.assertEqual(listed, {"train", "data"})
        self.assertTrue(list(check_dslide_mentions("a.md", text, lambda words: False)))
        self.assertFalse(list(check_dslide_mentions("a.md", text, lambda words: True)))


if __name__ == "__main__":
    outcome = unittest.main(exit=False, argv=sys.argv[:1]).result
    if not outcome.wasSuccessful():
        sys.exit(1)
    program = sys.argv[1] if len(sys.argv) > 1 else ""
    if not program:
        print("docs: no dslide binary given: its subcommands are not checked")
    tree.report("docs", list(check_tree(program)))
