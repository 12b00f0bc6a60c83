"""The programs of all languages, as commands: what trains, and what adds ones.

tools/clients/transcripts.py and one_job.py run them.
"""

from __future__ import annotations

import dataclasses
import pathlib
import shutil
import subprocess
from collections.abc import Callable

import java_package
import node_package
import python_package
from python_package import ROOT, say

_TRAIN = """
import json, sys, dslide
cluster, spec, points, job, *tls = sys.argv[1:]
with dslide.connect(cluster, tls=dslide.Tls(*tls) if tls else None, job=job, timeout=300,
                    patience=120) as opened:
    with dslide.Trainer(opened, spec, points, job=job, progress=False) as trainer:
        print(json.dumps({"steps": trainer.train().steps}))
"""
# As most of them take it. Whoever starts it puts in what stands in braces.
_FLAGS = ["--cluster", "{cluster}", "--data", "{data}", "--model", "{model}", "--job", "{job}",
          "--ca", "{ca}", "--cert", "{cert}", "--key", "{key}"]


@dataclasses.dataclass(frozen=True)
class Programs:
    """Those of one language."""

    language: str
    increments: list[str]
    train: list[str]  # with {cluster}, {data}, {model}, {job}, {ca}, {cert}, {key}
    environment: dict[str, str]  # beside that of this process
    in_flight: int = 1  # operations of a step stream that do not wait for each other, 3 at most


def _cpp(bin_dir: pathlib.Path, _: pathlib.Path) -> Programs:
    flags = [f"--tls-{flag[2:]}" if flag in ("--ca", "--cert", "--key") else flag
             for flag in _FLAGS]
    train = [str(bin_dir / "dslide"), "train", "-q", "-o", "json", "--timeout", "300s",
             "--threads", "1", *flags]
    return Programs("C++", [str(bin_dir / "dslide_client_increments")], train, {},
                    in_flight=3)


def _python(_: pathlib.Path, folder: pathlib.Path) -> Programs:
    python, package = python_package.install(folder)
    train = [str(python), "-c", _TRAIN, "{cluster}", "{model}", "{data}", "{job}", "{ca}", "{cert}",
             "{key}"]
    increments = python_package.SOURCE / "tests" / "increments.py"
    return Programs("Python", [str(python), str(increments)], train,
                    {"PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"}, in_flight=3)


def _node(_: pathlib.Path, folder: pathlib.Path) -> Programs:
    examples = node_package.install(folder)[1] / "node_modules" / "dslide" / "examples"
    node = ["node", "--no-deprecation"]  # of addresses that are numbers, with TLS
    return Programs("Node", [*node, str(examples / "increments.js")],
                    [*node, str(examples / "train.js"), *_FLAGS], {}, in_flight=3)


def _go(_: pathlib.Path, folder: pathlib.Path) -> Programs:
    for name in ("train", "increments"):
        _built(["go", "build", "-o", folder / name, f"./examples/{name}"], ROOT / "client" / "go")
    return Programs("Go", [str(folder / "increments")], [str(folder / "train"), *_FLAGS], {})


def _java(bin_dir: pathlib.Path, folder: pathlib.Path) -> Programs:
    java_package.build(bin_dir)
    class_path = f"{java_package.class_path()}:{folder}"
    _built(["javac", "-cp", class_path, "-d", folder,
            *sorted((java_package.SOURCE / "examples").glob("*.java"))], java_package.SOURCE)
    # They run for seconds: the better compiler of the JVM would only cost.
    java = ["java", "-XX:TieredStopAtLevel=1", "-cp", class_path]
    return Programs("Java", [*java, "Increments"], [*java, "Train", *_FLAGS], {})


_TOOLS: dict[str, tuple[Callable[[pathlib.Path, pathlib.Path], Programs], tuple[str, ...]]] = {
    "C++": (_cpp, ()), "Python": (_python, ()), "Node": (_node, ("node", "npm")),
    "Go": (_go, ("go",)), "Java": (_java, java_package.TOOLS),
}


def _built(command: list[object], folder: pathlib.Path) -> None:
    subprocess.run([str(part) for part in command], cwd=folder, check=True, text=True,
                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def build(bin_dir: pathlib.Path, folder: pathlib.Path,
          skip: Callable[[str, list[str]], None]) -> list[Programs]:
    """Those of each language, made in `folder`; `skip` hears of a language what it lacks.

    Raises subprocess.CalledProcessError, with the output in `stdout`.
    """
    made = []
    for language, (make, tools) in _TOOLS.items():
        missing = [tool for tool in tools if shutil.which(tool) is None]
        if missing:
            skip(language, missing)
            continue
        say(f"the programs of {language}")
        own = folder / language.lower()
        own.mkdir()
        made.append(make(bin_dir, own))
    return made
