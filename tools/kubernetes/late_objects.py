"""Objects that the API server takes when others are ready: their definitions, and the webhooks of
operators, which answer later than their pods run."""

from __future__ import annotations

import pathlib

from cluster import Cluster, ClusterError, wait_until


def apply_when_possible(cluster: Cluster, objects: pathlib.Path, *flags: str) -> None:
    """An error, with what the API server said last, when that is never."""
    refusals: list[str] = []

    def is_taken() -> bool:
        try:
            cluster.kubectl("apply", *flags, "-f", objects, within=300)
        except ClusterError as error:
            refusals.append(str(error))
            return False
        return True

    try:
        wait_until(is_taken, f"the API server takes {objects.name}")
    except ClusterError as error:
        raise ClusterError(f"{error}: {refusals[-1]}") from None
