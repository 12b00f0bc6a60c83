"""Builds the programs of client/examples as their README says it, away from the checkout.

A build is kept in the cache folder of ./run, under a name that its sources determine: tests of the
same sources take it as it is. The first one fetches the locked packages of its language.
"""

import dataclasses
import fcntl
import hashlib
import pathlib
import shutil
import subprocess
import time
from collections.abc import Sequence

from processes import PATIENCE_SECONDS
from python_package import cache_folder

ROOT = pathlib.Path(__file__).resolve().parents[2]
_EXAMPLES = ROOT / "client" / "examples"
# What a build in the checkout leaves there (.gitignore).
_MADE_IN_PLACE = {"gen", "example", "target"}
_KEPT_SECONDS = 7 * 24 * 3600


@dataclasses.dataclass(frozen=True)
class Language:
    name: str
    tools: tuple[str, ...]  # programs that it needs
    build: tuple[tuple[str, ...], ...]  # commands, in the folder of the example
    command: tuple[str, ...]  # that runs it; {} is that folder


LANGUAGES = (
    Language("java", ("java", "javac", "mvn"),
             (("mvn", "--quiet", "--batch-mode", "package"),),
             ("java", "-jar", "{}/target/example.jar")),
)


def missing_tools(language: Language) -> list[str]:
    return [tool for tool in language.tools if shutil.which(tool) is None]


def _sources(language: Language) -> list[str]:
    """Paths of what the example is built of, from the root: the protos, and its own files."""
    example = _EXAMPLES / language.name
    own = [path for path in example.rglob("*")
           if path.relative_to(example).parts[0] not in _MADE_IN_PLACE]
    protos = (ROOT / "protos").rglob("*.proto")
    return sorted(str(path.relative_to(ROOT)) for path in [*own, *protos] if path.is_file())


def _run(command: Sequence[str], folder: pathlib.Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL, timeout=PATIENCE_SECONDS)
    assert done.returncode == 0, (f"{' '.join(command)} in {folder} ended with "
                                  f"{done.returncode}\n{done.stdout}\n{done.stderr}")


def _make(language: Language, sources: list[str], folder: pathlib.Path) -> None:
    """Copies the sources to `folder`, with their places, and builds them there."""
    shutil.rmtree(folder, ignore_errors=True)
    for path in sources:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, folder / path)
    for command in language.build:
        _run(command, folder / "client" / "examples" / language.name)


def _drop_old(cache: pathlib.Path, language: Language) -> None:
    for built in cache.glob(f"{language.name}-*.built"):
        if time.time() - built.stat().st_mtime > _KEPT_SECONDS:
            built.unlink()
            shutil.rmtree(built.with_suffix(""), ignore_errors=True)


def command_of(language: Language) -> list[str]:
    """The command that runs the example; builds it first when that has not been done."""
    sources = _sources(language)
    digest = hashlib.sha256()
    for path in sources:
        digest.update(path.encode() + b"\0" + (ROOT / path).read_bytes() + b"\0")
    cache = cache_folder("examples")
    folder = cache / f"{language.name}-{digest.hexdigest()[:16]}"
    built = folder.with_suffix(".built")
    # Of tests that run at one time, one builds it.
    with open(cache / f"{language.name}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists():
            _make(language, sources, folder)
        built.touch()
        _drop_old(cache, language)
    place = folder / "client" / "examples" / language.name
    program, *arguments = [part.format(place) for part in language.command]
    return [shutil.which(program) or program, *arguments]
