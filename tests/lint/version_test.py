"""The files that cannot read VERSION name the version that is in it."""

import re
from collections.abc import Iterator, Mapping

import tree

# Of each: where the version stands. What a pattern finds nowhere was renamed: an error, too.
_PLACES = {
    "CHANGELOG.md": r"^## \[([0-9.]+)\]",
    "README.md": r"--version (\S+)",
    "client/go/dslide/doc.go": r'^const Version = "([^"]+)"',
    "client/java/examples/RowsBench.java": r"dslide-([0-9.]+)\.jar",
    "client/java/examples/Train.java": r"dslide-([0-9.]+)\.jar",
    "client/java/pom.xml": r"^  <version>([0-9.]+)</version>",
    "client/java/src/main/java/dev/dslide/Cluster.java": r'VERSION = "([^"]+)"',
    "client/node/package.json": r'^  "version": "([^"]+)"',
    "client/python/src/dslide/_version.py": r'^__version__ = "([^"]+)"',
    "deploy/compose/.env": r"=dslide(?:-example)?:(\S+)",
    "deploy/compose/compose.yaml": r":-dslide(?:-example)?:([^}]+)}",
    "deploy/compose/vms/inventory.example.toml": r'"dslide:([^"]+)"',
    "deploy/compose/vms/render.py": r'"dslide:([^"]+)"',
    "deploy/image/Dockerfile": r"^ARG VERSION=(\S+)",
    "docs/operate/deployment.md": r"charts/dslide --version (\S+)",
    "docs/operate/kubernetes.md": r"--version (\S+)",
    "docs/start/client-go.md": r"dslide\.dev@v([0-9.]+[0-9])",
    "docs/start/client-java.md": r"dslide-([0-9.]+)\.jar",
    "docs/start/client-node.md": r"dslide-([0-9.]+)\.tgz",
    "docs/understand/wire.md": r"`protos/dslide/v1`, of version ([0-9.]+[0-9])",
    "helm/dslide/CHANGELOG.md": r"^## ([0-9.]+)",
    "helm/dslide/Chart.yaml": r'^(?:version|appVersion): "?([0-9.]+)',
}


def disagreements(version: str, texts: Mapping[str, str]) -> Iterator[str]:
    """texts: {path: text}. In a change log the first version counts: the newest."""
    for path, pattern in _PLACES.items():
        found = re.findall(pattern, texts[path], re.MULTILINE)
        if not found:
            yield f"{path}: no version found"
        for other in found[:1] if path.endswith(".md") else found:
            if other != version:
                yield f"{path}: {other} is not {version}, which VERSION says"


def check_tree() -> Iterator[str]:
    version = tree.read("VERSION").strip()
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        yield f"VERSION: {version!r} is not MAJOR.MINOR.PATCH"
    yield from disagreements(version, {path: tree.read(path) for path in _PLACES})


def test_every_place_names_the_version() -> None:
    problems = list(check_tree())
    assert not problems, "\n".join(problems)


def test_disagreements() -> None:
    texts = {path: tree.read(path) for path in _PLACES}
    found = {line.partition(":")[0] for line in disagreements("9.9.9", texts)}
    assert found == set(_PLACES)
    gone = dict.fromkeys(_PLACES, "")
    assert len(list(disagreements("9.9.9", gone))) == len(_PLACES)
