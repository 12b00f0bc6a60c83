"""How a cluster is."""

from __future__ import annotations

import urllib.error
import urllib.request

from dslide._connection import Connection
from dslide.errors import InvalidArgumentError, NotFoundError, UnavailableError
from dslide.v1 import coordinator_pb2


async def status(connection: Connection) -> coordinator_pb2.GetClusterStatusResponse:
    """Shards, models, jobs and checkpoints in one answer."""
    response: coordinator_pb2.GetClusterStatusResponse = await connection.coordinator.call(
        "GetClusterStatus", coordinator_pb2.GetClusterStatusRequest()
    )
    return response


async def metrics(connection: Connection, shard: int) -> dict[str, float]:
    """The numbers of a shard's metrics page, by name with labels.

    Raises NotFoundError when the shard has no page that others reach.
    """
    shards = connection.map.shards
    if not 0 <= shard < len(shards):
        raise InvalidArgumentError(
            f"shard {shard} is outside [0, {len(shards)}), the shards of the cluster"
        )
    if not shards[shard].admin_address:
        raise NotFoundError(f"shard {shard} has no metrics page: start it with --admin")
    url = f"http://{shards[shard].admin_address}/metrics"
    try:
        # Directly: a proxy knows nothing of the cluster's addresses.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(url, timeout=connection.settings.timeout) as page:
            text = page.read().decode()
    except (OSError, urllib.error.URLError) as error:
        raise UnavailableError(f"shard {shard}, {url}: {error}") from None
    numbers = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            numbers[name] = float(value)
    return numbers
