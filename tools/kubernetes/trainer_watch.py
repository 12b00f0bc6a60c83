"""What becomes of every trainer's pod, those of deleted jobs included."""

from __future__ import annotations

import pathlib
import subprocess
from collections.abc import Sequence

INTERRUPTED = "130"  # exit code of dslide after SIGTERM
_COLUMNS = ('{.metadata.name}{" "}{.status.phase}{" "}'
            '{.status.containerStatuses[0].state.terminated.exitCode}{","}'
            '{.metadata.deletionTimestamp}{"\\n"}')


class TrainerWatch:
    """Until the cluster goes. `kubectl`: the command with which to ask."""

    def __init__(self, kubectl: Sequence[str], log: pathlib.Path) -> None:
        self._log = log
        with open(log, "wb") as out:
            subprocess.Popen(
                [*kubectl, "get", "pods", "--watch", "-l", "app.kubernetes.io/component=trainer",
                 "-o", f"jsonpath={_COLUMNS}"], stdin=subprocess.DEVNULL, stdout=out,
                stderr=subprocess.DEVNULL, start_new_session=True)

    def failed(self) -> list[str]:
        """Names of pods that have failed, each with its exit code; those that were told to end,
        as their job was replaced, have not."""
        return failures(self._log.read_text(encoding="utf-8"))


def failures(log: str) -> list[str]:
    """`NAME Failed CODE` of a log of lines `NAME PHASE [CODE],[DELETED]`, each once. A pod that was
    deleted before its container ran has no code, and has not failed."""
    found = set()
    for line in log.splitlines():
        name, phase, end = line.split(" ")
        code, deleted = end.split(",")
        was_told = code == INTERRUPTED or (not code and deleted)
        if phase == "Failed" and not was_told:
            found.add(f"{name} {phase} {code}".strip())
    return sorted(found)
