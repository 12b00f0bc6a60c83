"""How good a model of the cluster is, beside one that nobody has disturbed."""

from __future__ import annotations

import pathlib
import subprocess
import sys

from cluster import Cluster, ClusterError
from release import Release

POINTS = 4000
MOST_LOST = 0.01  # of P@1


class Examiner:
    """Asks for the accuracy on points that no trainer has seen."""

    def __init__(self, cluster: Cluster, dslide: pathlib.Path, release: Release) -> None:
        self._release = release
        self._points = cluster.work / "test.txt"
        # As those of values.yaml, but more.
        subprocess.run([dslide, "data", "gen", f"--output={self._points}", f"--points={POINTS}",
                        "--first-point=4000", "--features=2000", "--labels=1000"],
                       check=True, capture_output=True, timeout=60)

    def _precision(self, model: str) -> float:
        answer = self._release.ask("eval", "--name", model, "--data", self._points)
        return float(answer["p_at_1"])

    def compare(self, disturbed: str, undisturbed: str) -> None:
        """An error when the disturbed model is worse than the noise of two trainings."""
        after, before = self._precision(disturbed), self._precision(undisturbed)
        print(f"   P@1 {after:.4f}, undisturbed {before:.4f}", file=sys.stderr)
        if before - after > MOST_LOST:
            raise ClusterError(f"P@1 is {before - after:.4f} below that of the undisturbed "
                               "training")
