"""The Node package as users get it, with the locked versions of what builds it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess

from python_package import ROOT, cache_folder, say

SOURCE = ROOT / "client" / "node"
_MADE_IN_PLACE = ("node_modules", "dist", "build", "protos", "gen", "*.tgz")


def _npm(folder: pathlib.Path, *arguments: object) -> str:
    """Runs npm in `folder`. Raises subprocess.CalledProcessError, with the output in `stdout`."""
    done = subprocess.run(["npm", *map(str, arguments), "--no-audit", "--no-fund"], cwd=folder,
                          check=True, stdin=subprocess.DEVNULL, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    return done.stdout


def _modules() -> pathlib.Path:
    """The folder with the locked packages, made when it is not there."""
    lock_file = SOURCE / "package-lock.json"
    key = hashlib.sha256(lock_file.read_bytes()).hexdigest()[:16]
    folder = cache_folder() / f"node-{key}"
    with open(cache_folder() / "node.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of runs at one time, one makes it
        if not (folder / "made").exists():
            say("installing the packages of client/node/package-lock.json")
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            for name in ("package.json", "package-lock.json"):
                shutil.copy2(SOURCE / name, folder)
            _npm(folder, "ci", "--ignore-scripts")
            (folder / "made").touch()
    return folder / "node_modules"


def install(folder: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """Packs the package in a copy of its sources and installs it into an empty project.

    Returns both folders. Raises subprocess.CalledProcessError, with the output in `stdout`.
    """
    source, user = folder / "source" / "client" / "node", folder / "user"
    shutil.copytree(SOURCE, source, ignore=shutil.ignore_patterns(*_MADE_IN_PLACE))
    shutil.copytree(ROOT / "protos", folder / "source" / "protos")
    (source / "node_modules").symlink_to(_modules())
    _npm(source, "pack", "--pack-destination", folder)
    user.mkdir()
    (user / "package.json").write_text('{"private": true}\n', encoding="utf-8")
    _npm(user, "install", "--prefer-offline", "--ignore-scripts", next(folder.glob("*.tgz")))
    return source, user


def variables(bin_dir: pathlib.Path, user: pathlib.Path) -> dict[str, str]:
    """The environment variables of its tests."""
    return {**os.environ, "DSLIDE_BIN_DIR": str(bin_dir), "DSLIDE_NODE_USER": str(user),
            "DSLIDE_NODE_DOCS": str(ROOT / "docs")}
