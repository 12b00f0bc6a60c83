"""Which part of the tree may use which: the table, and the check that holds the tree to it.

Adding an edge or an exception here is a design decision: say why in the same change.
Reads #include lines, the text of the code and the DEPS of dslide_library() in CMakeLists.txt.
"""

import collections
import re
import sys
import unittest

import tree

# Room -> the rooms whose headers it may include, beside its own. A room is a folder of sources.
EDGES = {
    "protos": "",
    "core/base": "",
    "core/engine/math": "core/base",
    "core/partition": "core/base",
    "core/spec": "core/base core/partition",
    "core/system": "core/base",
    "core/engine/lsh": "core/base core/engine/math core/spec core/system",
    "core/engine/optim": "core/base core/engine/math core/spec",
    "core/engine/rows":
        "core/base core/engine/lsh core/engine/math core/engine/optim core/partition "
        "core/spec core/system",
    "core/protocol": "core/base core/engine/math core/partition core/spec",
    "core/engine/model":
        "core/base core/engine/lsh core/engine/math core/engine/rows core/protocol "
        "core/spec core/system",
    "core/net/library_logs": "core/system",
    "core/net/metrics": "core/base",
    "core/net/tls": "core/base core/system",
    "core/wire":
        "core/base core/engine/math core/partition core/protocol core/spec core/system "
        "protos",
    "core/wire/bulk": "core/base core/engine/math core/protocol core/spec core/wire protos",
    "core/wire/steps": "core/base core/protocol core/wire protos",
    "client/cpp":
        "core/base core/engine/model core/net/metrics core/net/tls core/partition "
        "core/protocol core/spec core/system core/wire core/wire/bulk core/wire/steps "
        "protos",
    "core/engine/data": "core/base core/system",
    "core/engine/eval": "core/base",
    "core/engine/fusion": "core/base",
    "core/engine/memory": "core/base core/spec",
    "core/engine/trees": "core/base core/engine/memory core/spec",
    "client/components":
        "client/cpp core/base core/engine/data core/engine/eval core/engine/fusion "
        "core/engine/memory core/engine/trees core/partition core/protocol core/spec",
    "core/net/http": "core/base core/net/metrics core/system",
    "client/trainer":
        "client/components client/cpp core/base core/engine/data core/engine/eval "
        "core/engine/lsh core/engine/math core/engine/model core/net/http "
        "core/net/metrics core/partition core/protocol core/spec",
    "core/flags": "",
    "client/cli/console": "client/cpp client/trainer core/base core/flags core/net/tls core/system",
    "services/common/files": "core/base core/net/metrics core/system",
    "services/common":
        "core/base core/net/metrics core/system core/wire core/wire/bulk "
        "services/common/files",
    "services/common/server":
        "core/base core/net/http core/net/metrics core/net/tls core/protocol core/system "
        "services/common",
    "services/coordinator/work": "",
    "services/coordinator/membership":
        "core/base core/partition core/protocol core/system core/wire protos "
        "services/common services/common/server services/coordinator/work",
    "services/coordinator/jobs": "core/base core/protocol services/coordinator/membership",
    "services/coordinator/checkpoints":
        "core/base core/protocol core/spec core/system services/common/files "
        "services/coordinator/jobs services/coordinator/membership "
        "services/coordinator/work",
    "services/coordinator/models":
        "core/base core/protocol core/spec core/system services/common/files "
        "services/coordinator/membership",
    "services/coordinator/control":
        "core/base core/net/metrics core/partition core/protocol core/system "
        "services/coordinator/checkpoints services/coordinator/jobs "
        "services/coordinator/membership services/coordinator/models "
        "services/coordinator/work",
    "services/coordinator/operations":
        "core/base core/net/metrics core/protocol core/system "
        "services/coordinator/checkpoints services/coordinator/membership "
        "services/coordinator/work",
    "services/coordinator/rpc":
        "core/base core/net/http core/net/metrics core/protocol core/system core/wire "
        "core/wire/steps protos services/common services/common/server "
        "services/coordinator/checkpoints services/coordinator/control "
        "services/coordinator/operations",
    "services/coordinator":
        "core/base core/net/library_logs core/net/metrics core/system services/common services/common/files "
        "services/common/server services/coordinator/checkpoints "
        "services/coordinator/control services/coordinator/membership "
        "services/coordinator/models services/coordinator/operations "
        "services/coordinator/rpc",
    "core/wire/log": "core/base core/protocol core/wire core/wire/bulk core/wire/steps protos",
    "services/shard/state":
        "core/base core/engine/fusion core/engine/math core/engine/memory "
        "core/engine/model core/engine/rows core/engine/trees core/partition "
        "core/protocol core/spec core/system core/wire core/wire/steps",
    "services/shard/storage":
        "core/base core/engine/model core/engine/rows core/partition core/spec "
        "core/system services/shard/state",
    "services/shard/image":
        "core/base core/engine/rows core/protocol core/system core/wire "
        "services/common/files services/shard/state services/shard/storage",
    "services/shard/log":
        "core/base core/protocol core/system core/wire/log services/common/files "
        "services/shard/storage",
    "services/shard/metrics":
        "core/base core/engine/rows core/net/http core/net/metrics core/protocol "
        "core/system services/shard/state",
    "services/shard/sequencer":
        "core/base core/protocol core/system core/wire/log services/shard/log "
        "services/shard/metrics services/shard/state",
    "services/shard/durability":
        "core/base core/net/metrics core/protocol core/spec core/system core/wire/log "
        "services/common/files services/shard/image services/shard/log "
        "services/shard/sequencer services/shard/state",
    "services/shard/rpc":
        "core/base core/net/metrics core/protocol core/system core/wire core/wire/bulk "
        "core/wire/log core/wire/steps protos services/common services/common/server "
        "services/shard/durability services/shard/image services/shard/metrics "
        "services/shard/sequencer services/shard/state",
    "services/shard":
        "core/base core/engine/math core/net/library_logs core/net/metrics core/protocol "
        "core/spec core/system core/wire core/wire/log protos services/common services/common/server "
        "services/shard/durability services/shard/metrics services/shard/rpc "
        "services/shard/sequencer services/shard/state",
    "services/embedded":
        "core/base core/net/metrics core/partition services/coordinator services/shard "
        "services/shard/image",
    "client/cli/cluster":
        "client/cli/console client/cpp core/base core/engine/data core/engine/rows "
        "core/net/metrics core/net/tls core/partition core/spec core/system core/wire "
        "core/wire/steps services/embedded",
    "core/engine/data/sources": "core/base core/engine/data core/system",
    "client/cli/train":
        "client/cli/cluster client/cli/console client/components client/cpp "
        "client/trainer core/base core/engine/data core/engine/data/sources "
        "core/engine/eval core/flags core/spec core/system services/embedded",
    "client/cli/tune":
        "client/cli/console client/cli/train client/cpp client/trainer core/base "
        "core/engine/data core/engine/eval core/spec",
    "services/inspect":
        "core/base core/system core/wire/log services/common/files "
        "services/coordinator/checkpoints services/coordinator/models "
        "services/shard/durability services/shard/image services/shard/log "
        "services/shard/storage",
    "client/cli/commands":
        "client/cli/cluster client/cli/console client/cli/train client/cli/tune "
        "client/cpp client/trainer core/base core/engine/data core/engine/data/sources "
        "core/engine/eval core/engine/math core/flags core/net/http core/net/metrics "
        "core/net/tls core/partition core/spec core/system services/inspect",
    "client/cli": "client/cli/commands core/net/library_logs core/system",
}
EDGES = {room: set(used.split()) for room, used in EDGES.items()}
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
    # It is asked to say nothing by itself.
    r"|core/net/library_logs/"
)
# (what, pattern in the code or an include, files that may have it). Tests may use anything.
RULES = [
    ("gRPC", r'\bgrpc::|#include <grpc', _GRPC_FILES),
    ("a generated protobuf header", r'#include "[^"]*\.pb\.h"', _GRPC_FILES + r"|core/wire/"),
    (
        "RocksDB",
        r"\brocksdb::|#include .rocksdb/",
        # A log's header names the database that it holds, and the environment that tests replace.
        r"services/shard/[a-z]+/storage_[a-z0-9_]*\.cc$|services/shard/[a-z]+/storage_(log|options|database)\.h$"
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
    ("the HTTP server library", r"#include .(CivetServer|civetweb)", r"core/net/http/|services/common/"),
    (
        "the command line library",
        r"\bCLI::|#include .CLI/",
        r"core/flags/|services/common/config\.cc$",
    ),
    ("OpenSSL", r"#include <openssl/|\b(X509|EVP|PEM|BIO|SSL)_\w+\(", r"core/net/tls/"),
    ("libarchive", r"#include <archive", r"core/engine/data/"),
    ("JSON", r"\bnlohmann::|#include .nlohmann/", r"core/spec/|core/engine/data/|client/|services/"),
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
        "an identifier for which docs/glossary.md has another word",
        r"\b\w*(?:[Ll]ineage|[Gg]iven_?[Uu]p|[Ww]orth_?[Ww]aiting|RollBack|roll_back|go_back|GoBack"
        r"|[Tt]aken_?[Bb]ack|[Mm]ender\b|Aside\b|GoOn\b|DieOf|Retire[ds]?\b|Passively)\w*",
        r"^$",
    ),
    # std::bad_alloc is how an allocator tells a standard container that there is no memory.
    ("throw", r"\bthrow\b", r"core/system/huge_pages\.h$"),
]

# Longest files, in lines. An entry below needs a reason.
HEADER_LINES = 200
SOURCE_LINES = 500
LONGER_FILES = {}


def folder_of(path):
    """The room of `path`, or its first folder (tests, bench)."""
    room, _, _ = path.rpartition("/")
    first = room.split("/")[0]
    return first if first in ("tests", "bench") else room


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
            if folder == "bench" and not re.match(_BENCH, target):
                yield f"{path}:{line}: bench may not use {target} ({include})"
            continue
        if target not in EDGES.get(folder, set()):
            yield f"{path}:{line}: {folder} may not use {target} ({include})"
        elif folder.startswith("client/") and include not in ONE_DOOR.get(target, {include}):
            doors = ", ".join(sorted(ONE_DOOR[target]))
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
            elif home[dep] != folder and not any(
                room == folder or room.startswith(folder + "/")
                for room, used in EDGES.items()
                if any(other == home[dep] or other.startswith(home[dep] + "/") for other in used)
            ):
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


def library_of(path):
    """The folder whose CMakeLists.txt makes the target that `path` is compiled into."""
    parts = path.split("/")
    if parts[:2] == ["tests", "unit"]:
        return "/".join(parts[:3])
    for length in range(len(parts) - 1, 1, -1):
        folder = "/".join(parts[:length])
        if (tree.ROOT / folder / "CMakeLists.txt").is_file():
            return folder
    return "/".join(parts[:2])


def check_units(sources):
    """Sources of a target are compiled several at a time: of two functions of one name that differ in
    their arguments, a call may mean the other one. `sources`: {path: text}."""
    seen = {}
    for path, text in sorted(sources.items()):
        target = library_of(path)
        for name in local_functions(text) if not _PROGRAMS.search(path) else ():
            first = seen.setdefault((target, name), path)
            if first != path:
                yield f"{path}: {name}() is in {first}, too: they share a unit, give one another name"


def check_rooms(paths):
    """A room that nobody can survey holds more than one noun."""
    counts = collections.Counter(path.rpartition("/")[0] for path in paths)
    for room, count in sorted(counts.items()):
        if count > ROOM_FILES:
            yield f"{room}: {count} sources, more than {ROOM_FILES}: which rooms are inside?"


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
    yield from check_rooms(tree.files({".cc", ".h"}))
    made = {library_of(f"{room}/x.cc") for room in EDGES if room != "protos"}
    yield from check_links({folder: tree.read(f"{folder}/CMakeLists.txt") for folder in sorted(made)})
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
        self.assertTrue(self.includes("core/base/a.h", '#include "core/engine/math/kernels.h"\n'))
        self.assertTrue(self.includes("client/cpp/a.cc", '#include "services/shard/x.h"\n'))
        self.assertTrue(self.includes("services/shard/a.cc", '#include "client/cpp/x.h"\n'))
        self.assertTrue(self.includes("core/engine/model/a.cc", '#include "tests/reference/x.h"\n'))
        self.assertFalse(self.includes("core/engine/lsh/a.cc", '#include "core/engine/math/kernels.h"\n'))
        self.assertFalse(self.includes("tests/unit/a_test.cc", '#include "services/shard/x.h"\n'))
        self.assertTrue(self.includes("bench/rpc/a.cc", '#include "services/shard/x.h"\n'))
        self.assertFalse(self.includes("bench/rpc/a.cc", '#include "client/cpp/x.h"\n'))

    def test_one_door(self):
        door = '#include "services/embedded/embedded_cluster.h"\n'
        self.assertFalse(self.includes("client/cli/cluster/a.cc", door))
        self.assertTrue(self.includes("client/cli/cluster/a.cc", '#include "services/embedded/x.h"\n'))
        self.assertTrue(self.includes("client/trainer/a.cc", door))

    def test_rooms(self):
        many = [f"core/base/{number}.cc" for number in range(ROOM_FILES + 1)]
        self.assertFalse(list(check_rooms(many[1:])))
        self.assertTrue(list(check_rooms(many)))

    def test_names_from_the_root(self):
        self.assertTrue(self.includes("core/base/a.cc", '#include "ids.h"\n'))
        missing = check_includes("core/base/a.cc", '#include "core/base/x.h"\n', lambda _: False)
        self.assertTrue(list(missing))

    def test_units(self):
        local = "namespace dslide {\nnamespace {\n\nint Sum(int a) {\n}\n\n}  // namespace\nint Open(int) {\n}\n"
        other = local.replace("int a", "float a")
        found = list(check_units({"core/engine/lsh/a.cc": local, "core/engine/lsh/b.cc": other}))
        self.assertEqual(len(found), 1, found)
        self.assertIn("Sum()", found[0])
        self.assertFalse(list(check_units({"core/engine/lsh/a.cc": local, "core/engine/model/b.cc": other})))

    def test_rules(self):
        planted = [
            ("core/engine/model/a.cc", "grpc::Status s;"),
            ("client/trainer/a.cc", "#include <grpcpp/grpcpp.h>"),
            ("services/shard/state/shard_core.cc", '#include "dslide/v1/shard.pb.h"'),
            ("services/shard/state/shard_core.cc", "rocksdb::DB* db;"),
            ("core/engine/lsh/a.cc", "#pragma omp parallel for"),
            ("core/engine/lsh/a.cc", '#include "hwy/highway.h"'),
            ("services/shard/a.cc", "uint64_t lineage_ = 0;"),
            ("services/shard/a.cc", "prometheus::Counter c;"),
            ("core/engine/data/a.cc", "std::mt19937 g;"),
            ("core/engine/model/a.cc", "auto t = std::chrono::steady_clock::now();"),
            ("core/engine/model/a.cc", 'throw std::runtime_error("x");'),
        ]
        for path, line in planted:
            with self.subTest(line=line):
                self.assertTrue(list(check_rules(path, line + "\n")))
        legal = [
            ("services/shard/rpc/shard_service.cc", "grpc::Status s;"),
            ("core/wire/a.cc", '#include "dslide/v1/shard.pb.h"'),
            ("services/shard/storage/storage_rocksdb.cc", "rocksdb::DB* db;"),
            ("core/base/parallel.h", "#pragma omp parallel for"),
            ("core/engine/model/a.cc", "// grpc::Status is for services"),
            ("core/engine/model/a.cc", 'Say("throw away rocksdb::DB");'),
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
        bad = dict(good, **{"core/engine/math": "dslide_library(dslide_math DEPS dslide_base)\n"})
        self.assertFalse(list(check_links(bad)))
        bad["core/base"] = "dslide_library(dslide_base DEPS dslide_math)\n"
        self.assertTrue(list(check_links(bad)))


if __name__ == "__main__":
    outcome = unittest.main(exit=False, argv=sys.argv[:1]).result
    if not outcome.wasSuccessful():
        sys.exit(1)
    tree.report("layering", list(check_tree()))
