"""docs/start/cli.md is what the programs say to --help; `pytest --update` writes the page anew."""

import pathlib
import re
import subprocess
import textwrap
from collections.abc import Iterator

import pytest
import tree

_PAGE = tree.ROOT / "docs/start/cli.md"
_WIDTH = 116
_INTRODUCTION = """\
# Commands and flags

Made from `--help` by `tests/lint/cli_page_test.py`; do not edit it by hand. What the commands do,
and their results as JSON: [commands](commands.md).
"""
_PROGRAMS = ("dslide", "dslide-coordinator", "dslide-shard")
# dslide-bench answers for it, which is not built everywhere.
_LEFT_OUT = ("bench",)


def help_of(words: list[str]) -> str:
    command = [*words, "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    return shown.stdout.strip()


def subcommands(text: str) -> list[str]:
    """Those that a help text lists, in its order."""
    listed = text.partition("\nSubcommands:\n")[2].split("\n\n")[0]
    return re.findall(r"^  ([a-z][a-z-]*)", listed, re.MULTILINE)


def wrapped(line: str) -> str:
    """The line, broken where it is too long; what follows stands below its last column."""
    if len(line) <= _WIDTH:
        return line
    gap = re.match(r"\s*\S+.*?\s{2,}(?=\S)|\s*", line)
    return textwrap.fill(
        line, _WIDTH, subsequent_indent=" " * min(gap.end() if gap else 0, 40),
        break_long_words=False, break_on_hyphens=False, drop_whitespace=True,
    )


def sections(bin_dir: pathlib.Path, words: list[str]) -> Iterator[str]:
    """Of a command and of those below it; words: its name, as typed."""
    text = help_of([str(bin_dir / words[0]), *words[1:]])
    shown = "\n".join(wrapped(line) for line in text.splitlines())
    yield f"{'#' * min(len(words) + 1, 4)} {' '.join(words)}\n\n```text\n{shown}\n```\n"
    for name in subcommands(text):
        if name not in _LEFT_OUT:
            yield from sections(bin_dir, [*words, name])


def test_the_page_is_what_the_programs_say(bin_dir: pathlib.Path, update: bool) -> None:
    missing = [name for name in _PROGRAMS if not (bin_dir / name).exists()]
    if missing:
        pytest.skip(f"{bin_dir} has no {', '.join(missing)}")
    parts = [part for name in _PROGRAMS for part in sections(bin_dir, [name])]
    page = "\n".join([_INTRODUCTION, *parts])
    if update:
        _PAGE.write_text(page, encoding="utf-8")
    assert _PAGE.read_text(encoding="utf-8") == page, "stale; --update writes it anew"
