"""What the checks of the tree share: where the sources are and how to read them."""

import pathlib
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
CODE_FOLDERS = ("core", "services", "client", "tests", "bench", "tools")
SKIPPED_PARTS = {"node_modules", "__pycache__", ".git"}


def files(suffixes: Collection[str], folders: Iterable[str] = CODE_FOLDERS) -> list[str]:
    """The tree's files with one of the suffixes, as paths relative to ROOT, sorted."""
    found = []
    for folder in folders:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in suffixes and path.is_file():
                relative = path.relative_to(ROOT)
                if not SKIPPED_PARTS.intersection(relative.parts):
                    found.append(relative.as_posix())
    return sorted(found)


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


_TOKENS = re.compile(
    r"""R"(?P<tag>[^()\s\\]{0,16})\(.*?\)(?P=tag)"   # raw string
      | "(?:\\.|[^"\\\n])*"                          # string
      | '(?:\\.|[^'\\\n])+'                          # character
      | //[^\n]*
      | /\*.*?\*/""",
    re.DOTALL | re.VERBOSE,
)


def code_only(text: str) -> str:
    """C++ text with comments and literals blanked out; line numbers stay as they are."""

    def blank(match: re.Match[str]) -> str:
        token = match.group(0)
        filler = "" if token.startswith("/") else '""'
        return filler + "\n" * token.count("\n")

    # A digit separator (1'000) would look like a character: join the digits first.
    return _TOKENS.sub(blank, re.sub(r"(?<=[0-9a-fA-F])'(?=[0-9a-fA-F]{2,4}\b)", "", text))


def compiled_sources(entry: Mapping[str, Any]) -> list[str]:
    """The tree's sources that an entry of compile_commands.json compiles, relative to ROOT.

    One, or those that a unit of a unity build includes; none for what is generated.
    """
    source = pathlib.Path(entry["directory"], entry["file"]).resolve()
    sources = [source]
    if re.fullmatch(r"unity_\d+_cxx\.cxx", source.name):
        sources = [
            pathlib.Path(name)
            for name in re.findall(r'^#include "(.+)"$', source.read_text(), re.MULTILINE)
        ]
    return [
        source.relative_to(ROOT).as_posix()
        for source in sources
        if source.is_relative_to(ROOT) and not source.relative_to(ROOT).parts[0].startswith("build")
    ]
