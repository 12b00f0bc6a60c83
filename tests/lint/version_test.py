"""The files that cannot read VERSION name the version that is in it."""

import re
import sys
import unittest

import tree

# Of each: where the version stands. What a pattern finds nowhere was renamed: an error, too.
_PLACES = {
    "CHANGELOG.md": r"^## \[([0-9.]+)\]",
    "client/python/src/dslide/_version.py": r'^__version__ = "([^"]+)"',
    "deploy/compose/.env": r"=dslide(?:-example)?:(\S+)",
    "deploy/compose/compose.yaml": r":-dslide(?:-example)?:([^}]+)}",
    "deploy/compose/vms/inventory.example.toml": r'"dslide:([^"]+)"',
    "deploy/compose/vms/render.py": r'"dslide:([^"]+)"',
    "deploy/image/Dockerfile": r"^ARG VERSION=(\S+)",
    "docs/understand/wire.md": r"`protos/dslide/v1`, of version ([0-9.]+[0-9])",
    "helm/dslide/CHANGELOG.md": r"^## ([0-9.]+)",
    "helm/dslide/Chart.yaml": r'^(?:version|appVersion): "?([0-9.]+)',
    "helm/dslide/ci/trainer-values.yaml": r"image: dslide:(\S+)",
}


def disagreements(version, texts):
    """texts: {path: text}. In a change log the first version counts: the newest."""
    for path, pattern in _PLACES.items():
        found = re.findall(pattern, texts[path], re.MULTILINE)
        if not found:
            yield f"{path}: no version found"
        for other in found[:1] if path.endswith(".md") else found:
            if other != version:
                yield f"{path}: {other} is not {version}, which VERSION says"


def check_tree():
    version = tree.read("VERSION").strip()
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        yield f"VERSION: {version!r} is not MAJOR.MINOR.PATCH"
    yield from disagreements(version, {path: tree.read(path) for path in _PLACES})


class PlantedTest(unittest.TestCase):
    def test_disagreements(self):
        texts = {path: tree.read(path) for path in _PLACES}
        self.assertEqual(len({line.partition(":")[0] for line in disagreements("9.9.9", texts)}),
                         len(_PLACES))
        gone = dict.fromkeys(_PLACES, "")
        self.assertEqual(len(list(disagreements("9.9.9", gone))), len(_PLACES))


if __name__ == "__main__":
    outcome = unittest.main(exit=False, argv=sys.argv[:1]).result
    if not outcome.wasSuccessful():
        sys.exit(1)
    tree.report("version", list(check_tree()))
