"""Which part of the tree may use which: the check that holds the tree to rooms.toml and to RULES.

Adding an edge or an exception is a design decision: say why in the same change.
Reads #include lines, the text of the code and the DEPS of dslide_library() in CMakeLists.txt.
"""

import ast
import collections
import graphlib
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping

import pytest
import tree

_ROOMS = "tests/lint/rooms.toml"
# Room -> the rooms whose headers it may include, beside its own.
EDGES: dict[str, list[str]] = tomllib.loads(tree.read(_ROOMS))
# Benchmarks measure from outside, as clients; they may also run a whole cluster in their process.
_BENCH = r"(core|client)/|services/(embedded|common)\b|protos$|(bench|tests)$"
# The headers through which clients may use a room of the services, where not all may be.
ONE_DOOR = {
    "services/embedded": {"services/embedded/embedded_cluster.h"},
    # Reads files of a shard that is not running.
    "services/inspect": {
        "services/inspect/log_inspection.h",
        "services/inspect/directory_examination.h",
    },
}
# Sources of one room, headers counted.
ROOM_FILES = 30

_GRPC_FILES = (
    r"(services|client)/.*_(service|client)\.(cc|h)$|services/common/|client/cpp/"
    # In-process channels are made where the servers are started.
    r"|services/embedded/"
    # What is checked of a client are its messages as they arrived.
    r"|client/cli/conformance/"
    # It is asked to say nothing by itself.
    r"|core/net/(library_logs|rpc)/"
)
# (what, pattern in the code or an include, files that may have it). Tests may use anything.
RULES = [
    ("gRPC", r"\bgrpc::|#include <grpc", _GRPC_FILES),
    ("a generated protobuf header", r'#include "[^"]*\.pb\.h"', _GRPC_FILES + r"|core/wire/"),
    (
        "RocksDB",
        r"\brocksdb::|#include .rocksdb/",
        # A log's header names the database that it holds, and the environment that tests replace.
        r"services/shard/[a-z]+/storage_[a-z0-9_]*\.cc$|services/shard/[a-z]+/storage_(log|options|database|files)\.h$"
        r"|services/coordinator/models/[a-z0-9_]*store[a-z0-9_]*\.cc$",
    ),
    ("OpenMP", r"#pragma omp|#include <omp\.h>|\bomp_[a-z_]+\(", r"core/base/parallel\.h$"),
    (
        "SIMD",
        r"#include .(hwy/|immintrin|x86intrin|[a-z]+mmintrin|arm_neon)|\b_mm(256|512)?_",
        # The CRC instruction belongs to the baseline (x86-64-v2) that every build assumes.
        r"core/engine/math/kernels[a-z0-9_]*(-inl)?\.(cc|h)$|core/base/crc32c\.cc$",
    ),
    (
        "the Prometheus library",
        r"\bprometheus::|#include .prometheus/",
        r"core/net/metrics/",
    ),
    (
        "the HTTP server library",
        r"#include .(CivetServer|civetweb)",
        r"core/net/http/|services/common/",
    ),
    (
        "the command line library",
        r"\bCLI::|#include .CLI/",
        r"core/flags/|services/common/config\.cc$",
    ),
    ("OpenSSL", r"#include <openssl/|\b(X509|EVP|PEM|BIO|SSL)_\w+\(", r"core/net/tls/"),
    ("libarchive", r"#include <archive", r"core/engine/data/"),
    ("utf8proc", r"#include <utf8proc|\butf8proc_", r"core/engine/data/text/unicode\.cc$"),
    (
        "JSON",
        r"\bnlohmann::|#include .nlohmann/",
        r"core/spec/|core/engine/data/|client/|services/",
    ),
    (
        "a random generator other than core/base/counter_rng.h",
        r"\bstd::(mt19937|default_random_engine|minstd_rand|rand\b|shuffle\b)|\bsrand\(|absl::BitGen",
        r"core/base/counter_rng\.(cc|h)$",
    ),
    (
        "the operating system's entropy",
        r"std::random_device|getrandom\(|getentropy\(",
        # Client ids must differ between processes.
        r"core/base/random_id|client/",
    ),
    (
        "a clock inside the core",
        r"_clock::now\(|\babsl::Now\(|\bclock_gettime\(|\bgettimeofday\(",
        # A log line carries the time at which it is written.
        r"core/(base/clock\.(cc|h)|system/log\.cc)$|services/|client/",
    ),
    (
        "an identifier for which docs/understand/glossary.md has another word",
        r"\b\w*(?:[Ll]ineage|[Gg]iven_?[Uu]p|[Ww]orth_?[Ww]aiting|RollBack|roll_back|go_back|GoBack"
        r"|[Tt]aken_?[Bb]ack|[Mm]ender\b|Aside\b|GoOn\b|DieOf|Retire[ds]?\b|Passively)\w*",
        r"^$",
    ),
    # std::bad_alloc is how an allocator tells a standard container that there is no memory.
    ("throw", r"\bthrow\b", r"core/system/huge_pages\.h$"),
]

# Longest files, in lines.
HEADER_LINES = 200
SOURCE_LINES = 500


def folder_of(path: str) -> str:
    """The room of `path`, or its first folder (tests, bench)."""
    room, _, _ = path.rpartition("/")
    first = room.split("/")[0]
    return first if first in ("tests", "bench") else room


def include_folder(include: str) -> str | None:
    """The folder of a project header; None for headers of libraries."""
    if re.match(r"(dslide/v1|google/rpc)/[a-z_]+(\.grpc)?\.pb\.h$", include):
        return "protos"
    if include.split("/")[0] in ("core", "services", "client", "tests", "bench"):
        return folder_of(include)
    return None


_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+(["<])([^">]+)[">]', re.MULTILINE)


def check_includes(path: str, text: str, exists: Callable[[str], bool]) -> Iterator[str]:
    folder = folder_of(path)
    for match in _INCLUDE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        kind, include = match.groups()
        target = include_folder(include)
        if target is None:
            if kind == '"' and "/" not in include:
                yield (
                    f'{path}:{line}: "{include}": name project headers from the root '
                    '("core/base/ids.h")'
                )
            continue
        if target != "protos" and not exists(include):
            yield f'{path}:{line}: "{include}" does not exist'
        if target == folder or folder in ("tests", "bench"):
            # A benchmark may run beside the reference that judges what it measures.
            if folder == "bench" and target == "tests" and "/reference/" not in include:
                yield f"{path}:{line}: bench may use only tests/reference ({include})"
            if folder == "bench" and not re.match(_BENCH, target):
                yield f"{path}:{line}: bench may not use {target} ({include})"
            continue
        if target not in EDGES.get(folder, ()):
            yield (
                f"{path}:{line}: {folder} may not use {target} ({include}); if it should, add "
                f'"{target}" to the line "{folder}" of {_ROOMS}'
            )
        elif folder.startswith("client/") and include not in ONE_DOOR.get(target, {include}):
            doors = ", ".join(sorted(ONE_DOOR[target]))
            yield f"{path}:{line}: {folder} may use only {doors} of {target}, not {include}"


def check_rules(path: str, text: str) -> Iterator[str]:
    if path.startswith(("tests/", "bench/")):
        return
    # Literals are blanked out of the code, but an include's name is one: keep those lines.
    code = "\n".join(
        raw if raw.lstrip().startswith("#include") else clean
        for raw, clean in zip(text.split("\n"), tree.code_only(text).split("\n"))
    )
    for what, pattern, allowed in RULES:
        if re.search(allowed, path):
            continue
        match = re.search(pattern, code)
        if match:
            line = code.count("\n", 0, match.start()) + 1
            yield f"{path}:{line}: {what} does not belong here (allowed: {allowed})"


def check_shape(path: str, text: str) -> Iterator[str]:
    lines = text.count("\n")
    limit = HEADER_LINES if path.endswith(".h") else SOURCE_LINES
    if lines > limit:
        yield f"{path}: {lines} lines, more than {limit}: is there a second noun inside?"
    if path.endswith(".h") and "#pragma once" not in text:
        yield f"{path}: no #pragma once"
    for number, line in enumerate(text.split("\n"), 1):
        if re.search(r"\b(TODO|FIXME|XXX)\b(?!\(#\d+\))", line):
            yield f"{path}:{number}: a TODO carries an issue number: TODO(#42)"
        if re.search(r"\bNOLINT(NEXTLINE|BEGIN)?\b(?!\([a-z])", line):
            yield f"{path}:{number}: NOLINT names its check: NOLINT(bugprone-...)"


def cmake_targets(text: str) -> Iterator[tuple[str, list[str]]]:
    """(name, dependencies) of each dslide_library() in a CMakeLists.txt."""
    for match in re.finditer(r"dslide_library\(([^)]*)\)", text):
        words = match.group(1).split()
        deps = words[words.index("DEPS") + 1 :] if "DEPS" in words else []
        yield words[0], [word for word in deps if word.startswith("dslide_")]


def check_links(cmake_files: Mapping[str, str]) -> Iterator[str]:
    """cmake_files: {folder: text of its CMakeLists.txt}."""
    home = {"dslide_proto": "protos"}
    links: dict[str, list[str]] = {}
    for folder, text in cmake_files.items():
        for name, deps in cmake_targets(text):
            home[name] = folder
            links[name] = deps
    for name, deps in links.items():
        folder = home[name]
        for dep in deps:
            if dep not in home:
                yield f"{folder}/CMakeLists.txt: {name} links {dep}, which no folder makes"
            elif home[dep] != folder and not any(
                room == folder or room.startswith(folder + "/")
                for room, used in EDGES.items()
                if any(other == home[dep] or other.startswith(home[dep] + "/") for other in used)
            ):
                yield f"{folder}/CMakeLists.txt: {folder} may not link {dep} of {home[dep]}"


# Functions without linkage at the beginning of a line: a name and its parenthesis.
_LOCAL_FUNCTION = re.compile(r"^(?!TEST|INSTANTIATE|return\b)[A-Za-z][\w:<>,&*\s]*?[\s&*>](\w+)\(")
# Sources of one folder that are no part of its library.
_PROGRAMS = re.compile(
    r"(^tests/fuzz|^bench/(micro|train/head_step)|/main\.cc$|/generate_\w+\.cc$)"
)


def local_functions(text: str) -> set[str]:
    """Names of the functions in a source's unnamed namespaces."""
    names: set[str] = set()
    inside = False
    for line, code in zip(text.split("\n"), tree.code_only(text).split("\n")):
        if line.startswith(("namespace", "}  // namespace")):
            inside = line == "namespace {"
        elif inside and (match := _LOCAL_FUNCTION.match(code)):
            names.add(match.group(1))
    return names


def library_of(path: str) -> str:
    """The folder whose CMakeLists.txt makes the target that `path` is compiled into."""
    parts = path.split("/")
    if parts[:2] == ["tests", "unit"]:
        return "/".join(parts[:3])
    for length in range(len(parts) - 1, 1, -1):
        folder = "/".join(parts[:length])
        if (tree.ROOT / folder / "CMakeLists.txt").is_file():
            return folder
    return "/".join(parts[:2])


def check_units(sources: Mapping[str, str]) -> Iterator[str]:
    """Sources of a target are compiled several at a time: of two functions of one name that differ
    in their arguments, a call may mean the other one. `sources`: {path: text}."""
    seen: dict[tuple[str, str], str] = {}
    for path, text in sorted(sources.items()):
        target = library_of(path)
        for name in local_functions(text) if not _PROGRAMS.search(path) else ():
            first = seen.setdefault((target, name), path)
            if first != path:
                yield f"{path}: {name}() is in {first}, too: give one of them another name"


def check_rooms(paths: Collection[str]) -> Iterator[str]:
    """A room that nobody can survey holds more than one noun."""
    counts = collections.Counter(path.rpartition("/")[0] for path in paths)
    for room, count in sorted(counts.items()):
        if count > ROOM_FILES:
            yield f"{room}: {count} sources, more than {ROOM_FILES}: which rooms are inside?"


def imported(text: str) -> set[str]:
    """The modules that a Python source imports."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
        elif isinstance(node, ast.Import):
            found.update(name.name for name in node.names)
    return found


def check_tools(sources: Mapping[str, str]) -> Iterator[str]:
    """Tests import tools and not the other way round. `sources`: {path: text} of Python."""
    stems = {path: path.rpartition("/")[2].removesuffix(".py") for path in sources}
    tools = {stem for path, stem in stems.items() if path.startswith("tools/")}
    tests = {stem for path, stem in stems.items() if path.startswith("tests/")} - tools
    for path, text in sources.items():
        for name in sorted(imported(text) & tests) if path.startswith("tools/") else ():
            yield f"{path}: tools import nothing of tests/ ({name}); what both use: tools/common"


def check_tree() -> Iterator[str]:
    yield from check_tools({path: tree.read(path) for path in tree.files({".py"})})
    sources = {path: tree.read(path) for path in tree.files({".cc", ".h"})}
    for path, text in sources.items():
        folder = folder_of(path)
        if folder not in EDGES and folder not in ("tests", "bench"):
            yield f'{path}: {_ROOMS} has no line "{folder}" = [...]'
        yield from check_includes(path, text, lambda include: (tree.ROOT / include).is_file())
        yield from check_rules(path, text)
        yield from check_shape(path, text)
    yield from check_rooms(sources)
    made = {library_of(f"{room}/x.cc") for room in EDGES if room != "protos"}
    yield from check_links(
        {folder: tree.read(f"{folder}/CMakeLists.txt") for folder in sorted(made)}
    )
    yield from check_units({path: text for path, text in sources.items() if path.endswith(".cc")})


def test_the_tree_keeps_to_its_rooms_and_rules() -> None:
    problems = list(check_tree())
    assert not problems, "\n".join(problems)


def test_table_is_acyclic() -> None:
    graphlib.TopologicalSorter(EDGES).prepare()


def test_table_is_sorted_and_names_folders() -> None:
    assert list(EDGES) == sorted(EDGES)
    for room, used in EDGES.items():
        assert used == sorted(set(used)), f'line "{room}" of {_ROOMS}'
        assert set(used) <= set(EDGES), f'line "{room}" of {_ROOMS}'
        assert (tree.ROOT / room).is_dir(), f"{_ROOMS}: there is no folder {room}"


# Each rule finds what was planted for it, and accepts its nearest legal neighbour.
@pytest.mark.parametrize(
    ("path", "include", "legal"),
    [
        ("core/base/a.h", "core/engine/math/kernels.h", False),
        ("client/cpp/a.cc", "services/shard/x.h", False),
        ("services/shard/a.cc", "client/cpp/x.h", False),
        ("core/engine/model/a.cc", "tests/reference/x.h", False),
        ("core/engine/lsh/a.cc", "core/engine/math/kernels.h", True),
        ("tests/unit/a_test.cc", "services/shard/x.h", True),
        ("bench/rpc/a.cc", "services/shard/x.h", False),
        ("bench/rpc/a.cc", "tests/unit/x.h", False),
        ("bench/rpc/a.cc", "client/cpp/x.h", True),
        ("client/cli/cluster/a.cc", "services/embedded/embedded_cluster.h", True),
        ("client/cli/cluster/a.cc", "services/embedded/x.h", False),
        ("client/trainer/a.cc", "services/embedded/embedded_cluster.h", False),
        ("core/base/a.cc", "ids.h", False),
    ],
)
def test_edges(path: str, include: str, legal: bool) -> None:
    found = list(check_includes(path, f'#include "{include}"\n', exists=lambda _: True))
    assert (not found) == legal, found


def test_an_absent_header_and_the_line_to_add_are_named() -> None:
    (absent,) = check_includes("core/base/a.cc", '#include "core/base/x.h"\n', lambda _: False)
    assert absent == 'core/base/a.cc:1: "core/base/x.h" does not exist'
    (edge,) = check_includes("core/base/a.cc", '\n#include "core/spec/x.h"\n', lambda _: True)
    assert edge.endswith('add "core/spec" to the line "core/base" of tests/lint/rooms.toml')


def test_tools() -> None:
    both = {"tests/a/shared.py": "", "tests/a/b_test.py": "import run", "tools/a/run.py": ""}
    assert not list(check_tools(both))
    assert list(check_tools(both | {"tools/a/run.py": "from shared import x"}))


def test_rooms() -> None:
    many = [f"core/base/{number}.cc" for number in range(ROOM_FILES + 1)]
    assert not list(check_rooms(many[1:]))
    assert list(check_rooms(many))


def test_units() -> None:
    local = (
        "namespace dslide {\nnamespace {\n\nint Sum(int a) {\n}\n\n}  // namespace\n"
        "int Open(int) {\n}\n"
    )
    other = local.replace("int a", "float a")
    (found,) = check_units({"core/engine/lsh/a.cc": local, "core/engine/lsh/b.cc": other})
    assert "Sum()" in found
    assert not list(check_units({"core/engine/lsh/a.cc": local, "services/shard/b.cc": other}))
    # A program's main shares no unit.
    assert not list(check_units({"client/cli/a.cc": local, "client/cli/main.cc": other}))


@pytest.mark.parametrize(
    ("path", "line", "legal"),
    [
        ("core/engine/model/a.cc", "grpc::Status s;", False),
        ("client/trainer/a.cc", "#include <grpcpp/grpcpp.h>", False),
        ("services/shard/state/shard_core.cc", '#include "dslide/v1/shard.pb.h"', False),
        ("services/shard/state/shard_core.cc", "rocksdb::DB* db;", False),
        ("core/engine/lsh/a.cc", "#pragma omp parallel for", False),
        ("core/engine/lsh/a.cc", '#include "hwy/highway.h"', False),
        ("services/shard/a.cc", "uint64_t lineage_ = 0;", False),
        ("services/shard/a.cc", "prometheus::Counter c;", False),
        ("core/engine/data/a.cc", "std::mt19937 g;", False),
        ("core/engine/model/a.cc", "auto t = std::chrono::steady_clock::now();", False),
        ("core/engine/model/a.cc", 'throw std::runtime_error("x");', False),
        ("services/shard/rpc/shard_service.cc", "grpc::Status s;", True),
        ("core/wire/a.cc", '#include "dslide/v1/shard.pb.h"', True),
        ("services/shard/storage/storage_rocksdb.cc", "rocksdb::DB* db;", True),
        ("core/base/parallel.h", "#pragma omp parallel for", True),
        ("core/engine/model/a.cc", "// grpc::Status is for services", True),
        ("core/engine/model/a.cc", 'Say("throw away rocksdb::DB");', True),
    ],
)
def test_rules(path: str, line: str, legal: bool) -> None:
    found = list(check_rules(path, line + "\n"))
    assert (not found) == legal, found


@pytest.mark.parametrize(
    ("path", "text", "legal"),
    [
        ("core/base/a.h", "#pragma once\n" + "\n" * HEADER_LINES, False),
        ("core/base/a.cc", "\n" * (SOURCE_LINES + 1), False),
        ("core/base/a.h", "int x;\n", False),
        ("core/base/a.cc", "// TODO: later\n", False),
        ("core/base/a.cc", "int x;  // NOLINT\n", False),
        ("core/base/a.h", "#pragma once\n", True),
    ],
)
def test_shape(path: str, text: str, legal: bool) -> None:
    assert (not list(check_shape(path, text))) == legal


def test_links() -> None:
    good = {
        "core/base": "dslide_library(dslide_base DEPS absl::status)\n",
        "core/engine/math": "dslide_library(dslide_math DEPS dslide_base)\n",
    }
    assert not list(check_links(good))
    bad = {**good, "core/base": "dslide_library(dslide_base DEPS dslide_math)\n"}
    assert list(check_links(bad))
