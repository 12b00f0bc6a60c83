"""Runs a program to its end and tells what it took: processor time, time, memory."""

import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence

from measurement import say
from programs import processes

_LAUNCHER = pathlib.Path(__file__).resolve().parent / "launcher.py"
# Of a program's messages, what is shown when it fails.
_SHOWN_CHARACTERS = 2000


class LeftOut(Exception):
    """Why a tool has no figures."""


@dataclasses.dataclass
class Usage:
    """Of a process and all its reaped descendants, from its start to its end."""

    cpu_seconds: float  # user and system
    wall_seconds: float
    peak_rss_bytes: int  # of the largest process
    stdout: str


def run(
    command: Sequence[object],
    folder: pathlib.Path,
    limit_seconds: float,
    environment: Mapping[str, str] | None = None,
) -> Usage:
    """Raises LeftOut when it fails or does not end within the limit; nothing of it is left then.

    `command` begins with the path of a program. `folder` is its working directory and gets its
    output.
    """
    words = [str(word) for word in command]
    stdout, stderr, usage = folder / "stdout", folder / "stderr", folder / "usage"
    with open(stdout, "wb") as out, open(stderr, "wb") as err:
        child = subprocess.Popen(
            [*processes.DIES_WITH_PARENT, sys.executable, "-I", "-S", _LAUNCHER, usage, *words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
    try:
        child.wait(limit_seconds)
    except subprocess.TimeoutExpired:
        raise LeftOut(f"not done within {limit_seconds:.0f} s") from None
    finally:
        # What the program has left running.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    figures = json.loads(usage.read_text(encoding="ascii"))
    code = figures.pop("code")
    if code != 0:
        said = stderr.read_text(errors="replace").strip()[-_SHOWN_CHARACTERS:] or "it said nothing"
        say(f"{' '.join(words)}\n{said}")
        raise LeftOut(f"ended with {code}: {said.splitlines()[-1]}")
    return Usage(**figures, stdout=stdout.read_text(errors="replace"))
