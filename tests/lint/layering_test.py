"""Which part of the tree may use which: the table, and the check that holds the tree to it.

Adding an edge or an exception here is a design decision: say why in the same change.
Reads #include lines, the text of the code and the DEPS of dslide_library() in CMakeLists.txt.
"""

import re
import sys
import unittest

import tree

# Folder -> the project folders whose headers it may include. A folder may always use itself.
_CORE = {"core/base", "core/math", "core/lsh", "core/optim", "core/partition", "core/model"}
_CORE |= {"core/memory", "core/trees", "core/fusion"}
_SERVED = _CORE | {"core/wire", "core/metrics", "core/tls", "protos"}
EDGES = {
    "protos": set(),
    "core/base": set(),
    "core/data": {"core/base"},
    "core/eval": {"core/base"},
    "core/math": {"core/base"},
    "core/metrics": {"core/base"},
    "core/tls": {"core/base"},
    "core/flags": {"core/base"},
    "core/partition": {"core/base"},
    "core/lsh": {"core/base", "core/math"},
    "core/optim": {"core/base", "core/math"},
    "core/memory": {"core/base"},
    "core/trees": {"core/base", "core/memory"},
    "core/fusion": {"core/base"},
    "core/model": _CORE - {"core/model"},
    "core/wire": _CORE | {"protos"},
    "services/common": _SERVED,
    "services/shard": _SERVED | {"services/common"},
    "services/coordinator": _SERVED | {"services/common"},
    "services/embedded": _SERVED | {"services/common", "services/shard", "services/coordinator"},
    "client/cpp": _SERVED,
    "client/components": _SERVED | {"core/data", "core/eval", "client/cpp"},
    "client/trainer": _SERVED | {"core/data", "core/eval", "client/cpp", "client/components"},
    "client/cli": _SERVED
    | {"core/data", "core/eval", "core/flags", "client/cpp", "client/components"}
    | {"client/trainer", "services/common"}
    | {"services/embedded"},
}
# Benchmarks measure from outside, as clients; they may also run a whole cluster in their process.
_BENCH = _SERVED | {"core/data", "core/flags", "client/cpp", "client/trainer", "client/cli"}
_BENCH |= {"services/embedded", "services/common"}
# The headers through which a folder may be used by another, where not all may be.
ONE_DOOR = {
    ("client/cli", "services/embedded"): {
        "services/embedded/embedded_cluster.h",
        # Reads files of a shard that is not running.
        "services/embedded/log_inspection.h",
        "services/embedded/directory_examination.h",
    },
    # The configuration reader and the version are the same for every program.
    ("client/cli", "services/common"): set(),
}

_GRPC_FILES = (
    r"(services|client)/.*_(service|client)\.(cc|h)$|services/common/|client/cpp/"
    # In-process channels are made where the servers are started.
    r"|services/embedded/"
)
# (what, pattern in the code or an include, files that may have it). Tests may use anything.
RULES = [
    ("gRPC", r'\bgrpc::|#include <grpc', _GRPC_FILES),
    ("a generated protobuf header", r'#include "[^"]*\.pb\.h"', _GRPC_FILES + r"|core/wire/"),
    (
        "RocksDB",
        r"\brocksdb::|#include .rocksdb/",
        # A log's header names the database that it holds, and the environment that tests replace.
        r"services/shard/storage_[a-z0-9_]*\.cc$|services/shard/storage_(log|options|database)\.h$|services/coordinator/[a-z0-9_]*store[a-z0-9_]*\.cc$",
    ),
    ("OpenMP", r"#pragma omp|#include <omp\.h>|\bomp_[a-z_]+\(", r"core/base/parallel\.h$"),
    (
        "SIMD",
        r"#include .(hwy/|immintrin|x86intrin|[a-z]+mmintrin|arm_neon)|\b_mm(256|512)?_",
        # The CRC instruction belongs to the baseline (x86-64-v2) that every build assumes.
        r"core/math/kernels[a-z0-9_]*(-inl)?\.(cc|h)$|core/base/crc32c\.cc$",
    ),
    (
        "the Prometheus library",
        r"\bprometheus::|#include .prometheus/",
        r"core/metrics/|services/common/metrics\.(cc|h)$",
    ),
    ("the HTTP server library", r"#include .(CivetServer|civetweb)", r"core/metrics/|services/common/"),
    (
        "the command line library",
        r"\bCLI::|#include .CLI/",
        r"core/flags/|services/common/config\.cc$",
    ),
    ("OpenSSL", r"#include <openssl/|\b(X509|EVP|PEM|BIO|SSL)_\w+\(", r"core/tls/"),
    ("libarchive", r"#include <archive", r"core/data/"),
    ("JSON", r"\bnlohmann::|#include .nlohmann/", r"core/model/|core/data/|client/|services/"),
    (
        "a random generator other than core/base/counter_rng.h",
        r"\bstd::(mt19937|default_random_engine|minstd_rand|rand\b|shuffle\b)|\bsrand\(|absl::BitGen",
        r"core/base/counter_rng\.(cc|h)$",
    ),
    (
        "the operating system's entropy",
        r"std::random_device|getrandom\(|getentropy\(",
        # Client ids must differ between processes.
        r"core/base/|client/",
    ),
    (
        "a clock inside the core",
        r"_clock::now\(|\babsl::Now\(|\bclock_gettime\(|\bgettimeofday\(",
        # A log line carries the time at which it is written.
        r"core/base/(clock\.(cc|h)|log\.cc)$|services/|client/",
    ),
    (
        "an identifier for which docs/glossary.md has another word",
        r"\b\w*(?:[Ll]ineage|[Gg]iven_?[Uu]p|[Ww]orth_?[Ww]aiting|RollBack|roll_back|go_back|GoBack"
        r"|[Tt]aken_?[Bb]ack|[Mm]ender\b|Aside\b|GoOn\b|DieOf|Retire[ds]?\b|Passively)\w*",
        r"^$",
    ),
    # std::bad_alloc is how an allocator tells a standard container that there is no memory.
    ("throw", r"\bthrow\b", r"core/base/huge_pages\.h$"),
]

# Longest files, in lines. An entry below needs a reason.
HEADER_LINES = 200
SOURCE_LINES = 500
LONGER_FILES = {}


def folder_of(path):
    """The key of EDGES that holds `path`, or its first folder (tests, bench)."""
    parts = path.split("/")
    if parts[0] in ("tests", "bench"):
        return parts[0]
    return "/".join(parts[:2])


def include_folder(include):
    """The folder of a project header; None for headers of libraries."""
    if re.match(r"(dslide/v1|google/rpc)/[a-z_]+(\.grpc)?\.pb\.h$", include):
        return "protos"
    if include.split("/")[0] in ("core", "services", "client", "tests", "bench"):
        return folder_of(include)
    return None


_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+(["<])([^">]+)[">]', re.MULTILINE)


def check_includes(path, text, exists):
    folder = folder_of(path)
    for match in _INCLUDE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        kind, include = match.groups()
        target = include_folder(include)
        if target is None:
            if kind == '"' and "/" not in include:
                yield f'{path}:{line}: "{include}": name project headers from the root ("core/base/ids.h")'
            continue
        if target != "protos" and not exists(include):
            yield f'{path}:{line}: "{include}" does not exist'
        if target == folder or folder in ("tests", "bench"):
            # A benchmark may run beside the reference that judges what it measures.
            if folder == "bench" and target == "tests" and "/reference/" not in include:
                yield f"{path}:{line}: bench may use only tests/reference ({include})"
            if folder == "bench" and target not in _BENCH | {"bench", "tests"}:
                yield f"{path}:{line}: bench may not use {target} ({include})"
            continue
        if target not in EDGES.get(folder, set()):
            yield f"{path}:{line}: {folder} may not use {target} ({include})"
        elif include not in ONE_DOOR.get((folder, target), {include}):
            doors = ", ".join(sorted(ONE_DOOR[folder, target])) or "nothing"
            yield f"{path}:{line}: {folder} may use only {doors} of {target}, not {include}"


def check_rules(path, text):
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


def check_shape(path, text):
    lines = text.count("\n")
    limit = LONGER_FILES.get(path, (HEADER_LINES if path.endswith(".h") else SOURCE_LINES,))[0]
    if lines > limit:
        yield f"{path}: {lines} lines, more than {limit}: is there a second noun inside?"
    if path.endswith(".h") and "#pragma once" not in text:
        yield f"{path}: no #pragma once"
    for number, line in enumerate(text.split("\n"), 1):
        if re.search(r"\b(TODO|FIXME|XXX)\b(?!\(#\d+\))", line):
            yield f"{path}:{number}: a TODO carries an issue number: TODO(#42)"
        if re.search(r"\bNOLINT(NEXTLINE|BEGIN)?\b(?!\([a-z])", line):
            yield f"{path}:{number}: NOLINT names its check: NOLINT(bugprone-...)"


def cmake_targets(text):
    """(name, dependencies) of each dslide_library() in a CMakeLists.txt."""
    for match in re.finditer(r"dslide_library\(([^)]*)\)", text):
        words = match.group(1).split()
        deps = words[words.index("DEPS") + 1 :] if "DEPS" in words else []
        yield words[0], [word for word in deps if word.startswith("dslide_")]


def check_links(cmake_files):
    """cmake_files: {folder: text of its CMakeLists.txt}."""
    home = {"dslide_proto": "protos"}
    links = {}
    for folder, text in cmake_files.items():
        for name, deps in cmake_targets(text):
            home[name] = folder
            links[name] = deps
    for name, deps in links.items():
        folder = home[name]
        for dep in deps:
            if dep not in home:
                yield f"{folder}/CMakeLists.txt: {name} links {dep}, which no folder makes"
            elif home[dep] != folder and home[dep] not in EDGES.get(folder, set()):
                yield f"{folder}/CMakeLists.txt: {folder} may not link {dep} of {home[dep]}"


# Functions without linkage at the beginning of a line: a name and its parenthesis.
_LOCAL_FUNCTION = re.compile(r"^(?!TEST|INSTANTIATE|return\b)[A-Za-z][\w:<>,&*\s]*?[\s&*>](\w+)\(")
# Sources of one folder that are no part of its library.
_PROGRAMS = re.compile(r"(^tests/fuzz|^bench/(micro|train/head_step)|/main\.cc$|/generate_\w+\.cc$)")


def local_functions(text):
    """Names of the functions in a source's unnamed namespaces."""
    names, inside = set(), False
    for line, code in zip(text.split("\n"), tree.code_only(text).split("\n")):
        if line.startswith(("namespace", "}  // namespace")):
            inside = line == "namespace {"
        elif inside and (match := _LOCAL_FUNCTION.match(code)):
            names.add(match.group(1))
    return names


def check_units(sources):
    """Sources of a target are compiled several at a time: of two functions of one name that differ in
    their arguments, a call may mean the other one. `sources`: {path: text}."""
    seen = {}
    for path, text in sorted(sources.items()):
        parts = path.split("/")
        target = "/".join(parts[:3] if parts[:2] == ["tests", "unit"] else parts[:2])
        for name in local_functions(text) if not _PROGRAMS.search(path) else ():
            first = seen.setdefault((target, name), path)
            if first != path:
                yield f"{path}: {name}() is in {first}, too: they share a unit, give one another name"


def check_tree():
    exists = lambda include: (tree.ROOT / include).is_file()
    for path in tree.files({".cc", ".h"}):
        text = tree.read(path)
        folder = folder_of(path)
        if folder not in EDGES and folder not in ("tests", "bench"):
            yield f"{path}: folder {folder} is not in the table of tests/lint/layering_test.py"
        yield from check_includes(path, text, exists)
        yield from check_rules(path, text)
        yield from check_shape(path, text)
    yield from check_links(
        {
            folder: tree.read(f"{folder}/CMakeLists.txt")
            for folder in EDGES
            if (tree.ROOT / folder / "CMakeLists.txt").is_file()
        }
    )
    yield from check_units({path: tree.read(path) for path in tree.files({".cc"})})
    for path, (_, reason) in LONGER_FILES.items():
        if not (tree.ROOT / path).is_file() or not reason:
            yield f"{path}: in LONGER_FILES, but absent or without a reason"


class PlantedTest(unittest.TestCase):
    """Each rule finds what was planted for it, and accepts its nearest legal neighbour."""

    def includes(self, path, text):
        return list(check_includes(path, text, exists=lambda include: True))

    def test_table_is_acyclic(self):
        def visit(folder, trail):
            self.assertNotIn(folder, trail)
            for target in EDGES[folder]:
                visit(target, trail + [folder])

        for folder in EDGES:
            visit(folder, [])

    def test_edges(self):
        self.assertTrue(self.includes("core/base/a.h", '#include "core/math/kernels.h"\n'))
        self.assertTrue(self.includes("client/cpp/a.cc", '#include "services/shard/x.h"\n'))
        self.assertTrue(self.includes("services/shard/a.cc", '#include "client/cpp/x.h"\n'))
        self.assertTrue(self.includes("core/model/a.cc", '#include "tests/reference/x.h"\n'))
        self.assertFalse(self.includes("core/lsh/a.cc", '#include "core/math/kernels.h"\n'))
        self.assertFalse(self.includes("tests/unit/a_test.cc", '#include "services/shard/x.h"\n'))
        self.assertTrue(self.includes("bench/rpc/a.cc", '#include "services/shard/x.h"\n'))
        self.assertFalse(self.includes("bench/rpc/a.cc", '#include "client/cpp/x.h"\n'))

    def test_one_door(self):
        door = '#include "services/embedded/embedded_cluster.h"\n'
        self.assertFalse(self.includes("client/cli/a.cc", door))
        self.assertTrue(self.includes("client/cli/a.cc", '#include "services/embedded/x.h"\n'))
        self.assertTrue(self.includes("client/trainer/a.cc", door))

    def test_names_from_the_root(self):
        self.assertTrue(self.includes("core/base/a.cc", '#include "ids.h"\n'))
        missing = check_includes("core/base/a.cc", '#include "core/base/x.h"\n', lambda _: False)
        self.assertTrue(list(missing))

    def test_units(self):
        local = "namespace dslide {\nnamespace {\n\nint Sum(int a) {\n}\n\n}  // namespace\nint Open(int) {\n}\n"
        other = local.replace("int a", "float a")
        found = list(check_units({"core/lsh/a.cc": local, "core/lsh/b.cc": other}))
        self.assertEqual(len(found), 1, found)
        self.assertIn("Sum()", found[0])
        self.assertFalse(list(check_units({"core/lsh/a.cc": local, "core/model/b.cc": other})))

    def test_rules(self):
        planted = [
            ("core/model/a.cc", "grpc::Status s;"),
            ("client/trainer/a.cc", "#include <grpcpp/grpcpp.h>"),
            ("services/shard/shard_core.cc", '#include "dslide/v1/shard.pb.h"'),
            ("services/shard/shard_core.cc", "rocksdb::DB* db;"),
            ("core/lsh/a.cc", "#pragma omp parallel for"),
            ("core/lsh/a.cc", '#include "hwy/highway.h"'),
            ("services/shard/a.cc", "uint64_t lineage_ = 0;"),
            ("services/shard/a.cc", "prometheus::Counter c;"),
            ("core/data/a.cc", "std::mt19937 g;"),
            ("core/model/a.cc", "auto t = std::chrono::steady_clock::now();"),
            ("core/model/a.cc", 'throw std::runtime_error("x");'),
        ]
        for path, line in planted:
            with self.subTest(line=line):
                self.assertTrue(list(check_rules(path, line + "\n")))
        legal = [
            ("services/shard/shard_service.cc", "grpc::Status s;"),
            ("core/wire/a.cc", '#include "dslide/v1/shard.pb.h"'),
            ("services/shard/storage_rocksdb.cc", "rocksdb::DB* db;"),
            ("core/base/parallel.h", "#pragma omp parallel for"),
            ("core/model/a.cc", "// grpc::Status is for services"),
            ("core/model/a.cc", 'Say("throw away rocksdb::DB");'),
        ]
        for path, line in legal:
            with self.subTest(line=line):
                self.assertFalse(list(check_rules(path, line + "\n")))

    def test_shape(self):
        long_header = "#pragma once\n" + "\n" * HEADER_LINES
        self.assertTrue(list(check_shape("core/base/a.h", long_header)))
        self.assertTrue(list(check_shape("core/base/a.cc", "\n" * (SOURCE_LINES + 1))))
        self.assertTrue(list(check_shape("core/base/a.h", "int x;\n")))
        self.assertTrue(list(check_shape("core/base/a.cc", "// TO" "DO: later\n")))
        self.assertTrue(list(check_shape("core/base/a.cc", "int x;  // NO" "LINT\n")))
        self.assertFalse(list(check_shape("core/base/a.h", "#pragma once\n")))

    def test_links(self):
        good = {"core/base": "dslide_library(dslide_base DEPS absl::status)\n"}
        bad = dict(good, **{"core/math": "dslide_library(dslide_math DEPS dslide_base)\n"})
        self.assertFalse(list(check_links(bad)))
        bad["core/base"] = "dslide_library(dslide_base DEPS dslide_math)\n"
        self.assertTrue(list(check_links(bad)))


if __name__ == "__main__":
    outcome = unittest.main(exit=False, argv=sys.argv[:1]).result
    if not outcome.wasSuccessful():
        sys.exit(1)
    tree.report("layering", list(check_tree()))
