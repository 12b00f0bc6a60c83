"""Causes of alerts, made one after the other: their alerts fire, and end with them.

Others that fire may last: that checkpoints have failed is told for half an hour.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence

import hasty_rules
from cluster import ClusterError, wait_until
from prometheus import Prometheus
from release import RELEASE, Release
from steps import Steps

# The alerts wait five minutes themselves, on a machine that may be busy.
PATIENCE = 1200.0
# Certificates of which each has less than the week that is asked for, and no checkpoint any more.
NEGLECT = ("tls.certManager.duration=1h", "tls.certManager.renewBefore=5m",
           "checkpoint.interval=off")


@dataclasses.dataclass(frozen=True)
class Cause:
    name: str
    alerts: Sequence[str]
    make: Callable[[], object]
    mend: Callable[[], object]


def _scale(release: Release, part: str, replicas: int) -> None:
    release.kubectl("scale", "statefulset", f"{RELEASE}-{part}", f"--replicas={replicas}")


def causes(release: Release, settings: Sequence[str]) -> list[Cause]:
    """`settings`: those of the release when all is well."""
    shard = release.shard(1)
    return [
        Cause("neglect", [alert + hasty_rules.SUFFIX for alert in hasty_rules.CHANGES],
              lambda: release.apply("upgrade", *settings, *NEGLECT),
              lambda: release.apply("upgrade", *settings)),
        # Its pod stays, and its container finds no image to start from.
        Cause("a shard down", ["DslideProcessDown", "DslideShardsMissing"],
              lambda: release.kubectl("set", "image", f"pod/{shard}", "shard=localhost/none:1"),
              lambda: release.kubectl("delete", "pod", shard, "--wait=false")),
        Cause("no coordinator", ["DslideCoordinatorGone"],
              lambda: _scale(release, "coordinator", 0),
              lambda: _scale(release, "coordinator", 1)),
    ]


class Alarm:
    """What comes of causes."""

    def __init__(self, prometheus: Prometheus, steps: Steps) -> None:
        self._prometheus = prometheus
        self._steps = steps

    def _told(self) -> str:
        states = ("firing", "pending")
        return "; ".join(f"{state}: {self._prometheus.alerts(state)}" for state in states)

    def _wait(self, cause: Cause, what: str, is_so: Callable[[], bool]) -> None:
        try:
            self._steps(f"prometheus: {cause.name}: {what}",
                        lambda: wait_until(is_so, f"{cause.name}: {what}", PATIENCE))
        except ClusterError as error:
            raise ClusterError(f"{error}; {self._told()}") from None

    def _firing(self, cause: Cause) -> set[str]:
        return set(self._prometheus.alerts("firing")) & set(cause.alerts)

    def __call__(self, cause: Cause) -> None:
        if firing := self._firing(cause):
            raise ClusterError(f"alerts fire before {cause.name} is made: {sorted(firing)}")
        cause.make()
        self._wait(cause, "alerts fire", lambda: self._firing(cause) == set(cause.alerts))
        print(f"   {self._told()}", file=sys.stderr)
        cause.mend()
        self._wait(cause, "alerts end", lambda: not self._firing(cause))
