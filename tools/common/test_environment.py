"""Makes the environment that the tests in Python run with, when it is not there.

usage: test_environment.py FOLDER

FOLDER/bin/python is an interpreter with the packages of tests/requirements.txt, with the messages
of protos/dslide/v1 as the package dslide.v1, and with the modules that folders of tests share.
The packages are installed once for all checkouts and builds, in the cache folder; FOLDER refers to
them.
"""

import fcntl
import hashlib
import pathlib
import shutil
import subprocess
import sys

import python_package

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Whose modules other folders use.
SHARED = [ROOT / folder for folder in (
    "tools/common", "tools/fault", "tools/observability", "tests/integration")]
LOCK_FILE = ROOT / "tests" / "requirements.txt"
PROTOS = sorted((ROOT / "protos").glob("dslide/v1/*.proto"))


def packages() -> pathlib.Path:
    """The environment with the locked packages."""
    return python_package.environment(LOCK_FILE, "tests", lambda folder: python_package.pip(
        folder, "install", "--require-hashes", "--only-binary", ":all:", "--requirement",
        LOCK_FILE))


def state_of(installed: pathlib.Path) -> str:
    """What changes when an environment has to be made anew."""
    parts = [path.read_bytes() for path in (*PROTOS, pathlib.Path(__file__))]
    return hashlib.sha256(b"\0".join([str(installed).encode(), *parts])).hexdigest()


def generate(installed: pathlib.Path, folder: pathlib.Path) -> None:
    """Writes the messages, their types and the stubs to `folder`."""
    folder.mkdir(parents=True)
    names = [path.relative_to(ROOT / "protos") for path in PROTOS]
    subprocess.run(
        [installed / "bin" / "python", "-m", "grpc_tools.protoc", f"-I{ROOT / 'protos'}",
         f"--python_out={folder}", f"--pyi_out={folder}", f"--grpc_python_out={folder}", *names],
        check=True)
    for package in ("dslide", "dslide/v1"):
        (folder / package / "__init__.py").touch()
        (folder / package / "py.typed").touch()


def make(folder: pathlib.Path) -> None:
    installed = packages()
    made, state = folder / "made", state_of(installed)
    if made.exists() and made.read_text(encoding="ascii") == state:
        return
    shutil.rmtree(folder, ignore_errors=True)
    # With the system's packages behind: the plots of the benchmarks come from Debian.
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--system-site-packages",
                    folder], check=True)
    generate(installed, folder / "protos")
    site = next((folder / "lib").glob("python*/site-packages"))
    found = [folder / "protos", installed / site.relative_to(folder), *SHARED]
    (site / "tests.pth").write_text("".join(f"{path}\n" for path in found), encoding="utf-8")
    made.write_text(state, encoding="ascii")


def main() -> None:
    folder = pathlib.Path(sys.argv[1]).absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        # Of runs at one time, one makes it.
        with open(folder.with_suffix(".lock"), "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            make(folder)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"the environment of the tests in Python cannot be made in {folder}: {error}\n"
                 "It needs python3-venv, and once the packages of tests/requirements.txt: let pip "
                 "reach an index (PIP_INDEX_URL), or take along the cache folder of a machine that "
                 f"has them ({python_package.cache_folder()}, DSLIDE_CACHE_DIR).")


if __name__ == "__main__":
    main()
