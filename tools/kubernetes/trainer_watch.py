"""What becomes of every trainer's pod, those of deleted jobs included."""

from __future__ import annotations

import pathlib
import subprocess
from collections.abc import Sequence

_COLUMNS = ('{.metadata.name}{" "}{.status.phase}{" "}'
            '{.status.containerStatuses[0].state.terminated.exitCode}{"\\n"}')


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
        """Names of pods that have failed, each with its exit code."""
        seen = {line for line in self._log.read_text(encoding="utf-8").splitlines()}
        return sorted(line for line in seen if line.split()[1:2] == ["Failed"])
