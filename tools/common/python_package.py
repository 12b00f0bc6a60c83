"""The Python package as users get it, in an environment with the locked versions of its tests."""

from __future__ import annotations

import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = ROOT / "client" / "python"


def say(text: str) -> None:
    print(f"   {text}", file=sys.stderr, flush=True)


def cache_folder(part: str = "clients") -> pathlib.Path:
    """Where what was built or installed is kept for the next time."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = pathlib.Path(os.environ.get("DSLIDE_CACHE_DIR") or f"{cache}/dslide") / part
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def environment_folder(lock_file: pathlib.Path, name: str) -> pathlib.Path:
    """Where the environment with the packages of `lock_file` is, or will be."""
    key = hashlib.sha256(lock_file.read_bytes() + sys.version.encode()).hexdigest()[:16]
    return cache_folder() / f"{name}-{key}"


def is_made(folder: pathlib.Path) -> bool:
    return (folder / "made").exists()


def environment(lock_file: pathlib.Path = SOURCE / "requirements-test.txt", name: str = "python",
                fill: Callable[[pathlib.Path], None] | None = None) -> pathlib.Path:
    """The folder of an environment with the locked packages, made when it is not there.

    `fill` installs them into the folder; by default all of the file, with what they depend on.
    """
    folder = environment_folder(lock_file, name)
    with open(cache_folder() / f"{name}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of runs at one time, one makes it
        if not is_made(folder):
            say(f"installing the packages of {lock_file.relative_to(ROOT)}")
            shutil.rmtree(folder, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", folder], check=True)
            (fill or (lambda made: pip(made, "install", "--requirement", lock_file)))(folder)
            (folder / "made").touch()
    return folder


def pip(folder: pathlib.Path, *arguments: object) -> None:
    subprocess.run([folder / "bin" / "python", "-m", "pip", "--quiet",
                    "--disable-pip-version-check", *map(str, arguments)], check=True,
                   stdout=sys.stderr)


def install(folder: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """Builds a source distribution and a wheel of it, and unpacks that to `folder`/package.

    Returns the interpreter and the path of the package. The environment is shared by checkouts, so
    the package is beside it; the checkout, which a build would change, is copied.
    Raises subprocess.CalledProcessError, with the output in `stdout`.
    """
    made = environment()
    source, package = folder / "source", folder / "package"
    ignored = shutil.ignore_patterns("v1", "build", "dist", "*.egg-info", "__pycache__", ".*")
    shutil.copytree(SOURCE, source / "client" / "python", ignore=ignored)
    shutil.copytree(ROOT / "protos", source / "protos")
    python = made / "bin" / "python"
    subprocess.run([python, "-m", "build", "--no-isolation", "--outdir", folder,
                    source / "client" / "python"], check=True, text=True, stdin=subprocess.DEVNULL,
                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    pip(made, "install", "--no-deps", "--target", package, next(folder.glob("*.whl")))
    return python, package


def variables(package: pathlib.Path, *more: pathlib.Path) -> dict[str, str]:
    """The environment variables with which the interpreter sees the package, and more folders."""
    path = os.pathsep.join(map(str, (package, *more)))
    return {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


def torch_packages(may_install: bool) -> pathlib.Path | None:
    """The folder of PyTorch's modules, in the environment that the benchmarks share; None where it
    is not made. It is 6 GB.
    """
    lock_file, name = ROOT / "bench" / "peers" / "requirements-torch.txt", "bench-torch"
    folder = environment_folder(lock_file, name)
    if may_install:
        environment(lock_file, name, lambda made: pip(
            made, "install", "--no-deps", "--requirement", lock_file))
    if not is_made(folder):
        return None
    return next((folder / "lib").glob("python*/site-packages"))
