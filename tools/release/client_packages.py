"""The packages of the clients, as files that their registries take: Python, Node."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable

from plan import ROOT, ReleaseError

for _folder in ("common", "clients"):
    sys.path.insert(0, str(ROOT / "tools" / _folder))

import node_package  # noqa: E402
import python_package  # noqa: E402

# {language: (what makes the files in a folder, their names)}
_MAKERS: dict[str, tuple[Callable[[pathlib.Path], object], tuple[str, ...]]] = {
    "python": (python_package.install, ("*.whl", "*.tar.gz")),
    "node": (node_package.install, ("*.tgz",)),
}


def make(output: pathlib.Path) -> list[pathlib.Path]:
    """The files, in a folder for each language. A language whose tools are missing is left out,
    loudly."""
    files = []
    if shutil.which("npm") is None:
        print("   LEFT OUT: the Node package: npm not found", file=sys.stderr)
    for language, (make_in, patterns) in _MAKERS.items():
        if language == "node" and shutil.which("npm") is None:
            continue
        with tempfile.TemporaryDirectory(prefix="dslide-release-") as temporary:
            try:
                make_in(pathlib.Path(temporary))
            except subprocess.CalledProcessError as error:
                raise ReleaseError(f"the {language} package: {error}\n{error.stdout or ''}"
                                   ) from error
            target = output / language
            target.mkdir(parents=True, exist_ok=True)
            files += [pathlib.Path(shutil.copy2(path, target)) for pattern in patterns
                      for path in sorted(pathlib.Path(temporary).glob(pattern))]
    return files
