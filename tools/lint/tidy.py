"""Runs clang-tidy over the project's sources in an affordable way.

Most of clang-tidy's time on a file goes into the headers of gRPC or GoogleTest. So files are
checked together, as one translation unit that includes them all; files that clash in such a unit
(helpers of one name) move to another. A file that passed is remembered by the content of everything
it includes from this tree, and skipped the next time.

usage: tidy.py --build-dir DIR [--cache-dir DIR] [--jobs N] [files...]
"""

import argparse
import concurrent.futures
import hashlib
import json
import pathlib
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "common"))
import tree  # noqa: E402

# {source: flags that matter to a reader of it}
Flags = dict[str, tuple[str, ...]]

# Files of one unit. Larger shares more header time, smaller spreads better over processors.
UNIT_FILES = 30
# Highway sources include themselves once per instruction set: they do not share a unit.
ALONE = re.compile(r"^core/math/kernels")
_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


class Fingerprints:
    """The content of a file and of everything it includes from this tree, as one hash."""

    def __init__(self, salt: str) -> None:
        self.salt = salt
        self.closures: dict[str, list[str]] = {}

    def closure(self, path: str) -> list[str]:
        if path in self.closures:
            return self.closures[path]
        seen, todo = {path}, [path]
        while todo:
            for include in _INCLUDE.findall(tree.read(todo.pop())):
                # A generated header changes with its proto.
                include = re.sub(r"^((?:dslide/v1|google/rpc)/\w+?)(\.grpc)?\.pb\.h$",
                                 r"protos/\1.proto", include)
                if include not in seen and (tree.ROOT / include).is_file():
                    seen.add(include)
                    todo.append(include)
        self.closures[path] = sorted(seen)
        return self.closures[path]

    def of(self, path: str) -> str:
        digest = hashlib.sha256(self.salt.encode())
        for name in self.closure(path):
            digest.update(name.encode() + b"\0" + (tree.ROOT / name).read_bytes() + b"\0")
        return digest.hexdigest()


def compile_flags(build_dir: pathlib.Path) -> Flags:
    """Of the build's compile commands."""
    kept = re.compile(r"-I|-D|-std=|-fopenmp|-march=|-pthread")
    result: Flags = {}
    for entry in json.loads((build_dir / "compile_commands.json").read_text()):
        flags, words = list[str](), iter(shlex.split(entry["command"]))
        for word in words:
            if word == "-isystem":
                flags.append(f"{word}\n{next(words)}")
            elif kept.match(word):
                flags.append(word)
        for source in tree.compiled_sources(entry):
            result[source] = tuple(flags)
    return result


def groups(paths: Collection[str], prints: Fingerprints) -> list[list[str]]:
    """Lists of files that may share a unit: sources apart from tests, light from heavy headers."""
    result: dict[str | tuple[str, bool], list[str]] = {}
    for path in paths:
        key: str | tuple[str, bool] = path
        if not ALONE.match(path):
            heavy = any(name.startswith("protos/") for name in prints.closure(path))
            key = (path.split("/")[0], heavy)
        result.setdefault(key, []).append(path)
    return list(result.values())


class Checker:
    """Compiles and checks units. Thread-safe: holds constants only."""

    def __init__(self, flags: Mapping[str, tuple[str, ...]], scratch: pathlib.Path) -> None:
        self.flags = flags
        self.scratch = scratch

    def source_of(self, members: list[str]) -> pathlib.Path:
        if len(members) == 1:
            return tree.ROOT / members[0]
        name = hashlib.sha256("\n".join(members).encode()).hexdigest()[:16]
        source = self.scratch / f"{name}.cc"
        source.write_text("".join(f'#include "{tree.ROOT / member}"\n' for member in members))
        return source

    def flags_of(self, members: list[str]) -> list[str]:
        merged: list[str] = []
        for member in members:
            merged += [flag for flag in self.flags[member] if flag not in merged]
        # "-isystem" is one word of two; it was kept joined with its folder.
        return ["-xc++", "-Wno-everything", "-DHWY_COMPILE_ONLY_STATIC"] + [
            word for flag in merged for word in flag.split("\n")
        ]

    def clashing(self, members: list[str]) -> list[str]:
        """The members with errors when all are compiled together; all when none is named."""
        done = subprocess.run(
            ["clang++", "-fsyntax-only", "-ferror-limit=0", "-fno-caret-diagnostics",
             *self.flags_of(members), str(self.source_of(members))],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False,
        )
        if done.returncode == 0:
            return []
        located = set(re.findall(r"^([^:\n]+):\d+:\d+: (?:fatal )?error:", done.stderr,
                                 re.MULTILINE))
        return [m for m in members if str(tree.ROOT / m) in located] or members

    def units(self, group: list[str]) -> list[list[str]]:
        """Parts of a group that compile, each in one translation unit of UNIT_FILES at most."""
        pool, result = group, list[list[str]]()
        while pool:
            count = -(-len(pool) // UNIT_FILES)
            bad: list[str] = []
            for part in range(count):
                # Neighbours (a folder's files) share most headers, so they stay together.
                members = pool[len(pool) * part // count : len(pool) * (part + 1) // count]
                out = self.clashing(members) if len(members) > 1 else []
                good = [member for member in members if member not in out]
                # What is left may name what the others brought: then each file goes alone.
                if out and good and self.clashing(good):
                    good, out = [], members
                if not good:
                    result += [[member] for member in members]
                else:
                    result.append(good)
                    bad += out
            pool = bad
        return result

    def tidy(self, members: list[str]) -> tuple[bool, str]:
        """(ok, output) of clang-tidy over the files as one translation unit."""
        started = time.monotonic()
        # How fast a test runs is not worth a copy less to read.
        fewer = ["--checks=-performance-*"] if members[0].startswith("tests/") else []
        done = subprocess.run(
            [
                "clang-tidy", "--quiet", *fewer, f"--config-file={tree.ROOT / '.clang-tidy'}",
                f"--header-filter=^{re.escape(str(tree.ROOT))}/"
                "(core|services|client|tests|bench)/.*[.](h|cc)$",
                str(self.source_of(members)), "--", *self.flags_of(members),
            ],
            capture_output=True, text=True, check=False, cwd=tree.ROOT,
        )
        print(f"  {time.monotonic() - started:5.1f} s  {members[0]}"
              + (f" and {len(members) - 1} more" if len(members) > 1 else ""), flush=True)
        # Only summaries ("N warnings generated") go to stderr, unless clang-tidy itself failed.
        output = done.stdout if done.stdout.strip() or done.returncode == 0 else done.stderr
        return done.returncode == 0, output

    def check(self, unit: list[str]) -> tuple[list[tuple[str, bool]], str]:
        """[(file, ok)] and the output of a unit."""
        ok, output = self.tidy(unit)
        # A finding names its file; one in a header counts against all that include it.
        named = [m for m in unit
                 if re.search(rf"^{re.escape(str(tree.ROOT / m))}:\d", output, re.MULTILINE)]
        return [(m, ok or (bool(named) and m not in named)) for m in unit], output


def findings(output: str) -> Iterator[str]:
    """The findings in clang-tidy's output, one text each: a header's come once for every unit."""
    starts = [m.start() for m in re.finditer(
        r"^\S+:\d+:\d+: (error|warning):|^error:", output, re.MULTILINE)]
    if not starts and output.strip():
        yield output.strip()
    for start, end in zip(starts, starts[1:] + [len(output)]):
        yield output[start:end].rstrip()


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--build-dir", type=pathlib.Path, required=True)
    parser.add_argument("--cache-dir", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("files", nargs="*", help="default: every source of the build")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    started = time.monotonic()
    build_dir = arguments.build_dir.resolve()
    scratch = build_dir / "tidy"
    scratch.mkdir(parents=True, exist_ok=True)
    flags = compile_flags(build_dir)
    version = subprocess.run(
        ["clang-tidy", "--version"], capture_output=True, text=True, check=True
    ).stdout
    prints = Fingerprints(version + tree.read(".clang-tidy"))

    # Fuzz targets are built by clang only, but are read like the rest.
    every_flag = tuple(dict.fromkeys(flag for some in flags.values() for flag in some))
    for path in tree.files({".cc"}, ["tests/fuzz"]):
        flags.setdefault(path, every_flag)
    unknown = sorted(set(arguments.files) - set(flags))
    if unknown:
        sys.exit(f"tidy.py: not a source of the build in {build_dir}: {', '.join(unknown)}")
    wanted = sorted(arguments.files or flags)
    stamps = {path: prints.of(path) for path in wanted}
    passed_before = set()
    if arguments.cache_dir:
        arguments.cache_dir.mkdir(parents=True, exist_ok=True)
        passed_before = {p for p in wanted if (arguments.cache_dir / stamps[p]).exists()}
    todo = [path for path in wanted if path not in passed_before]
    checker = Checker(flags, scratch)
    failures, shown = 0, set[str]()
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        work = [unit for units in pool.map(checker.units, groups(todo, prints)) for unit in units]
        # Long units first, so that the processors end together.
        work.sort(key=len, reverse=True)
        print(f"clang-tidy: {len(todo)} files in {len(work)} units, "
              f"{len(passed_before)} unchanged since they passed", flush=True)
        pending = [pool.submit(checker.check, unit) for unit in work]
        for future in concurrent.futures.as_completed(pending):
            verdicts, output = future.result()
            for path, ok in verdicts:
                if ok and arguments.cache_dir:
                    (arguments.cache_dir / stamps[path]).touch()
                failures += not ok
            for finding in findings(output):
                if finding not in shown:
                    shown.add(finding)
                    print(finding, flush=True)
    print(f"clang-tidy: {failures} of {len(todo)} files with findings, "
          f"{time.monotonic() - started:.0f} s")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
