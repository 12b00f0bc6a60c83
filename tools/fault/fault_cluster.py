"""A cluster of processes that may be killed at any time and come back as what they were.

Every server keeps its address and its data directory over its lives. Shards are reached through
fault proxies when that is asked for: then the address that the cluster map tells is the proxy's.
"""

from __future__ import annotations

import collections
import contextlib
import pathlib
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import grpc
import grpc_client
import processes
import shard_client
from dslide.v1.model_pb2 import ModelSpec
from fault_plan import Rule
from fault_proxy import RunningProxy

_THREADS = 1

# The one place that says how a shard is told what an acknowledgement means.
DURABILITY_FLAGS: dict[str, list[str]] = {
    "checkpoint": [],
    "log-periodic": ["--durability", "log-periodic"],
    "log": ["--durability", "log"],
}
# Modes in which a killed shard may not lose what it has acknowledged.
LOSSLESS_MODES = ("log-periodic", "log")


@contextlib.contextmanager
def kept(name: str, violations: list[str]) -> Iterator[pathlib.Path]:
    """A new directory, which stays, and is named, when the block adds to the violations.

    What ends the block early is one of them.
    """
    directory = pathlib.Path(tempfile.mkdtemp(prefix=f"dslide-{name}-"))
    before = len(violations)
    try:
        yield directory
    except (AssertionError, RuntimeError, OSError) as error:
        violations.append(str(error))
    if len(violations) > before:
        violations[-1] += f"; what there is of the run is in {directory}"
    else:
        shutil.rmtree(directory, ignore_errors=True)


class Member:
    """One server or client over all of its lives: kill() and start() in turn."""

    def __init__(self, name: str, program: str, arguments: Any, directory: pathlib.Path,
                 environment: Mapping[str, str] | None = None, wrapper: Sequence[str] = ()) -> None:
        self.name = name
        self.lives = 0
        self._process: processes.Process | None = None
        self.ends: list[processes.Finished] = []  # of lives that ended by themselves
        self._program, self._arguments = program, arguments
        self._directory = directory / name
        self._environment, self._wrapper = environment, wrapper

    def start(self, environment: Mapping[str, str] | None = None) -> None:
        """A new life; `environment` is added to what every life has."""
        self.lives += 1
        directory = self._directory / f"life-{self.lives}"
        directory.mkdir(parents=True)
        arguments = self._arguments(self.lives) if callable(self._arguments) else self._arguments
        environment = {**(self._environment or {}), **(environment or {})}
        self._process = processes.Process(self._program, arguments, directory, environment,
                                         self._wrapper)

    @property
    def process(self) -> processes.Process:
        """Of its last life."""
        assert self._process is not None, f"{self.name} was not started"
        return self._process

    def kill(self) -> int:
        """SIGKILL; the time in ns at which it was certainly dead."""
        if self._process is not None:
            self._process.kill()
        return time.monotonic_ns()

    def running(self) -> bool:
        return self._process is not None and self._process.running()

    def collect_end(self) -> int | None:
        """Keeps the end of a life that ended by itself; its exit code, None while it runs."""
        if self.running():
            return None
        finished = self.process.finish()
        self.ends.append(finished)
        self.process.kill()
        return finished.code


class FaultCluster(contextlib.ExitStack):
    """A coordinator and its shards.

    mode    key of DURABILITY_FLAGS
    rules   fault_plan.Rule for the proxies before the shards; None: no proxies
    admin   whether the servers have admin pages; see admin_address()
    server_flags, coordinator_flags, shard_flags   further ones of all servers, of one kind
    """

    def __init__(self, directory: pathlib.Path, num_shards: int, mode: str, seed: object = 0,
                 rules: Sequence[Rule] | None = None, admin: bool = False,
                 server_flags: Sequence[object] = (), coordinator_flags: Sequence[object] = (),
                 shard_flags: Sequence[object] = (), lease_timeout: str = "3s") -> None:
        super().__init__()
        self._admin_addresses: dict[str, str] = {}
        self._admin, self._server_flags = admin, server_flags
        self.directory = pathlib.Path(directory)
        self.num_shards = num_shards
        self.proxies: list[RunningProxy] = []
        self.coordinator_address = f"127.0.0.1:{processes.free_port()}"
        self.coordinator = self._member("coordinator", "dslide-coordinator", [
            "--listen", self.coordinator_address, "--shards", num_shards,
            "--data-dir", self.directory / "coordinator-data", "--heartbeat-interval", "200ms",
            "--lease-timeout", lease_timeout, *coordinator_flags])
        self._ports = [processes.free_port() for _ in range(num_shards)]
        self.shards: list[Member] = []
        for shard, port in enumerate(self._ports):
            advertise = []
            if rules is not None:
                proxy = self.enter_context(
                    RunningProxy(f"127.0.0.1:{port}", f"{seed}/{shard}", rules))
                self.proxies.append(proxy)
                advertise = ["--advertise", proxy.address]
            self.shards.append(self._member(f"shard-{shard}", "dslide-shard", [
                "--listen", f"127.0.0.1:{port}", "--shard-id", shard, *advertise,
                "--coordinator", self.coordinator_address, "--threads", _THREADS,
                "--data-dir", self.data_dir(shard), *DURABILITY_FLAGS[mode],
                *shard_flags]))

    def _member(self, name: str, program: str, arguments: Sequence[object]) -> Member:
        admin = f"127.0.0.1:{processes.free_port()}" if self._admin else ""
        self._admin_addresses[name] = admin
        arguments = [*arguments, "--admin", admin, *self._server_flags]
        member = Member(name, program, arguments, self.directory, {"OMP_WAIT_POLICY": "passive"})
        self.callback(member.kill)
        return member

    def start(self) -> None:
        """Starts everything and waits until clients can work."""
        self.coordinator.start()
        for shard in self.shards:
            shard.start()
        self.wait_until_ready()

    def admin_address(self, member: Member) -> str:
        return self._admin_addresses[member.name]

    def direct_address(self, shard: int) -> str:
        return f"127.0.0.1:{self._ports[shard]}"

    def data_dir(self, shard: int) -> pathlib.Path:
        return self.directory / f"shard-{shard}-data"

    def client_address(self, shard: int) -> str:
        """Where clients reach a shard: through its proxy, when there is one."""
        return self.proxies[shard].address if self.proxies else self.direct_address(shard)

    def wait_until_ready(self) -> None:
        """Until the coordinator and every shard answer."""

        def ready() -> bool:
            with contextlib.suppress(grpc_client.ConnectionLost, grpc_client.CallFailed):
                with grpc_client.Connection(self.coordinator_address) as connection:
                    places = shard_client.cluster_map(connection).shards
                for shard in range(self.num_shards):
                    with grpc_client.Connection(self.direct_address(shard)) as connection:
                        shard_client.server_info(connection)
                return len(places) == self.num_shards
            return False

        processes.wait_until(ready, lambda: "the cluster is ready",
                             alive=[member.process for member in (self.coordinator, *self.shards)])

    def register_model(self, model: ModelSpec) -> None:
        """Again and again, where a bad network is between the coordinator and the shards."""
        refused: list[grpc_client.CallFailed] = []

        def registered() -> bool:
            with grpc_client.Connection(self.coordinator_address) as connection:
                try:
                    shard_client.register_model(connection, model)
                except grpc_client.CallFailed as error:
                    if error.code != grpc.StatusCode.UNAVAILABLE:
                        raise
                    refused[:] = [error]
                    return False
            return True

        processes.wait_until(registered, lambda: f"a registration: {refused[-1]}")

    def wait_for_model(self, model: str) -> None:
        """Until every shard has the model: one that came back empty gets it by and by."""

        def there() -> bool:
            with contextlib.suppress(grpc_client.ConnectionLost, grpc_client.CallFailed):
                for shard in range(self.num_shards):
                    with grpc_client.Connection(self.direct_address(shard)) as connection:
                        shard_client.describe_model(connection, model)
                return True
            return False

        processes.wait_until(there, lambda: f"model {model} on every shard",
                             alive=[member.process for member in (self.coordinator, *self.shards)])

    def restore_count(self) -> int | None:
        """How often the cluster was restored; None while there is no map."""
        with contextlib.suppress(grpc_client.ConnectionLost, grpc_client.CallFailed):
            with grpc_client.Connection(self.coordinator_address) as connection:
                return shard_client.cluster_map(connection).restore_count
        return None

    def faults(self) -> dict[str, int]:
        """{kind: how often} over all proxies."""
        return dict(sum((proxy.trace.counts() for proxy in self.proxies), collections.Counter()))
