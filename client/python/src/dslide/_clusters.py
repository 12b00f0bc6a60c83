"""Clusters that the faces for scikit-learn and PyTorch share within a process."""

from __future__ import annotations

import atexit
import os
import threading

from dslide._transport import Tls
from dslide.client import Client, connect
from dslide.local import LocalCluster, local

_Key = tuple[int, str, Tls | None]
_mutex = threading.Lock()
_open: dict[_Key, Client] = {}


def shared_cluster(
    address: str | None = None,
    *,
    tls: Tls | None = None,
    directory: str | os.PathLike[str] | None = None,
    shards: int = 1,
) -> Client:
    """The running cluster at `address`, or a local one that is started for this process.

    directory : where a local cluster keeps its rows; None: a temporary one
    shards : of a local cluster that is not running yet

    A cluster is connected to, or started, once; it ends with the process. A child of a fork has its
    own. Thread-safe. Raises what `dslide.connect` and `dslide.local` do.
    """
    place = address or ("" if directory is None else os.path.realpath(directory))
    key = (os.getpid(), place, tls)
    with _mutex:
        cluster = _open.get(key)
        if cluster is None:
            if address is not None:
                cluster = connect(address, tls=tls)
            else:
                cluster = local(shards, data_dir=directory)
            _open[key] = cluster
        return cluster


@atexit.register
def _close() -> None:
    """Waits for local clusters, which write their rows; connections end with the process."""
    for key, cluster in _open.items():
        if key[0] == os.getpid() and isinstance(cluster, LocalCluster):
            cluster.stop()
