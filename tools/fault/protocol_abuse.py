"""Hostile peers attack a shard's port while an honest client works: what survives, at what price.

The attacks of abuse_attacks.py, each from three positions: `plain`, a port without
TLS; `stranger`, a port that demands certificates, by somebody who has none; `insider`, the same
port by a trainer with a certificate. Measured: the server's processor seconds and peak memory above
those before the attack, and an honest client's times of answer before and during it. The attacker
runs at nice 10, so that what it computes itself costs the others less; all share the machine's
processors. The attack `busy_neighbour` only computes, and shows what that alone costs. An honest
p99 is over its bound when it is more than twice that before, and more than 20 ms.

A server that has ended or that does not serve afterwards, an honest call that failed, and a
stranger who costs more than 2 CPU-seconds (10 ms for each connection, when there are so many) or
64 MiB are violations. What insiders and plaintext peers cost is reported in
`exceeded`: gRPC 1.51 is not safe from them.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import multiprocessing
import os
import pathlib
import ssl
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

import grpc
import processes
from abuse_attacks import Attack, Target
from grpc_client import HEALTH, CallFailed, Connection, ConnectionLost
from kill_loop import quantile

PLAIN, STRANGER, INSIDER = POSITIONS = ("plain", "stranger", "insider")
CPU_SECONDS, MEGABYTES, SLOWER = 2.0, 64.0, 2.0
# Of a TLS handshake, about.
CPU_SECONDS_PER_CONNECTION = 0.01
# Times of answer below this are those of the machine's scheduler.
_LEAST_MS = 10.0
_PACE_SECONDS = 0.005
_TICKS = os.sysconf("SC_CLK_TCK")


def context(directory: pathlib.Path, role: str | None = None) -> ssl.SSLContext:
    """An ssl.SSLContext of a client, with the role's certificate or without any."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.load_verify_locations(directory / "ca.crt")
    made.set_alpn_protocols(["h2"])
    if role is not None:
        made.load_cert_chain(directory / f"{role}.crt", directory / f"{role}.key")
    return made


def credentials(directory: pathlib.Path, role: str) -> grpc.ChannelCredentials:
    """The same for grpcio."""
    return grpc.ssl_channel_credentials(*(
        (directory / name).read_bytes() for name in ("ca.crt", f"{role}.key", f"{role}.crt")))


class Subject(processes.Programs):
    """A shard on its own, with TLS or without, and what it has used; a context manager."""

    def __init__(self, directory: pathlib.Path, certificates: pathlib.Path | None = None) -> None:
        flags = [] if certificates is None else [
            "--tls-ca", certificates / "ca.crt", "--tls-cert", certificates / "shard.crt",
            "--tls-key", certificates / "shard.key"]
        super().__init__(directory)
        directory.mkdir()
        shard = self.start_lone_shard(*flags)
        self.process, self.address = shard.process, shard.address

    def _proc(self, name: str) -> pathlib.Path:
        return pathlib.Path(f"/proc/{self.process.pid}/{name}")

    def cpu_seconds(self) -> float:
        fields = self._proc("stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def _status_mib(self, key: str) -> float:
        for line in self._proc("status").read_text().splitlines():
            if line.startswith(key):
                return int(line.split()[1]) / 1024
        return 0.0  # it has ended

    def memory_mib(self) -> float:
        return self._status_mib("VmRSS")

    def forget_peak(self) -> None:
        self._proc("clear_refs").write_text("5")

    def peak_mib(self) -> float:
        return self._status_mib("VmHWM")


class Honest:
    """A client that was there before the attack, and asks for health all the time."""

    def __init__(self, address: str, tls: grpc.ChannelCredentials | None = None) -> None:
        self._open = functools.partial(Connection, address, tls=tls)
        self._connection = self._open()
        self.failures: list[str] = []

    def call_for(self, seconds: float) -> list[float]:
        """Milliseconds of each answer."""
        times, until = [], time.monotonic() + seconds
        while time.monotonic() < until:
            started = time.monotonic()
            try:
                self._connection.call_bytes(HEALTH, b"")
                times.append(1000 * (time.monotonic() - started))
            except CallFailed as error:
                self.failures.append(str(error))
            except ConnectionLost as error:
                self.failures.append(str(error))
                self._connection = self._open()
            time.sleep(_PACE_SECONDS)
        return times

    def close(self) -> None:
        self._connection.close()


def attack_process(attack: Attack, target: Target, seconds: float, results: Any) -> None:
    """Attacks until the time is over and something was sent; what that was goes into the queue."""
    os.nice(10)
    until = time.monotonic() + seconds
    sent: collections.Counter[str] = collections.Counter()
    try:
        attack(target, sent, lambda: time.monotonic() >= until and sent.total() > 0)
    finally:
        results.put(dict(sent))


@dataclasses.dataclass
class Outcome:
    """What one attack did."""

    attack: str
    position: str
    alive: bool
    cpu_seconds: float
    memory_mib: float
    honest_before: list[float]  # p50, p99 in ms
    honest_during: list[float]
    honest_failures: list[str]
    sent: dict[str, int]

    @property
    def slower(self) -> float:
        return round(self.honest_during[1] / max(self.honest_before[1], _LEAST_MS), 1)

    def exceeded(self) -> list[str]:
        """Names of the bounds that it has broken."""
        allowed = max(CPU_SECONDS, CPU_SECONDS_PER_CONNECTION * self.sent.get("connections", 0))
        found = [("cpu", self.cpu_seconds > allowed), ("memory", self.memory_mib > MEGABYTES),
                 ("p99", self.slower > SLOWER)]
        return [name for name, broken in found if broken]

    def violations(self) -> Iterator[str]:
        name = f"{self.attack} ({self.position})"
        if not self.alive:
            yield f"{name}: the server has ended"
        if self.honest_failures:
            yield f"{name}: {len(self.honest_failures)} honest calls failed: " \
                  f"{self.honest_failures[0]}"
        if self.position == STRANGER:
            for bound in self.exceeded():
                if bound != "p99":
                    yield f"{name}: over the bound of {bound}: {self.cpu_seconds} CPU-s, " \
                          f"{self.memory_mib} MiB"

    def row(self) -> str:
        return (f"| {self.attack} | {self.position} | {'yes' if self.alive else 'NO'} | "
                f"{self.cpu_seconds:.1f} | {self.memory_mib:.0f} | "
                f"{self.honest_before[0]:.1f} / {self.honest_before[1]:.1f} | "
                f"{self.honest_during[0]:.1f} / {self.honest_during[1]:.1f} | "
                f"{', '.join(self.exceeded()) or 'holds'} |")


HEADING = ("| attack | from | alive | CPU-s | MiB | honest p50 / p99 before, ms | during, ms | "
           "over the bound |\n|---|---|---|---|---|---|---|---|")


def quantiles(times: Sequence[float]) -> list[float]:
    return [quantile(times, 0.5) or 0.0, quantile(times, 0.99) or 0.0]


def newcomer_failures(address: str, tls: grpc.ChannelCredentials | None) -> list[str]:
    """What keeps somebody from being served who shares the attacker's address and its debts.

    Newcomers try again, as gRPC's clients do by themselves.
    """
    until = time.monotonic() + processes.PATIENCE_SECONDS
    while True:
        try:
            newcomer = Honest(address, tls)
            newcomer.call_for(0.1)
            newcomer.close()
            failures = newcomer.failures
        except (ConnectionLost, OSError) as error:
            failures = [str(error)]
        if not failures or time.monotonic() >= until:
            return failures
        time.sleep(0.2)


def measure(attack: Attack, position: str, subject: Subject, target: Target,
            honest_tls: grpc.ChannelCredentials | None, seconds: float) -> Outcome:
    """The Outcome of one attack on a server that was just started."""
    honest = Honest(subject.address, honest_tls)
    honest.call_for(0.3)  # warm
    before = honest.call_for(max(0.5, seconds / 2))
    cpu, memory = subject.cpu_seconds(), subject.memory_mib()
    subject.forget_peak()
    results = multiprocessing.get_context("fork").Queue()
    attacker = multiprocessing.get_context("fork").Process(
        target=attack_process, args=(attack, target, seconds, results), daemon=True)
    attacker.start()
    during = honest.call_for(seconds)
    attacker.join(processes.PATIENCE_SECONDS)
    if attacker.is_alive():
        attacker.kill()
        attacker.join()
    sent = results.get() if not results.empty() else {}
    # What is left to do for what was sent counts.
    honest.call_for(0.5)
    alive = subject.process.running()
    used = subject.cpu_seconds() - cpu if alive else 0.0
    peak = max(0.0, subject.peak_mib() - memory)
    honest.close()
    if alive:
        honest.failures.extend(f"afterwards: {failure}"
                               for failure in newcomer_failures(subject.address, honest_tls))
    return Outcome(attack.__name__, position, alive, round(used, 2), round(peak, 1),
                   quantiles(before), quantiles(during), honest.failures, sent)


def run(seconds: float, attacks: Sequence[Attack], position: str) -> Iterator[Outcome]:
    """What becomes of each attack from one position, each on a fresh shard."""
    with tempfile.TemporaryDirectory(prefix="dslide-abuse-") as name:
        directory = pathlib.Path(name)
        certificates, honest_tls, tls = None, None, None
        if position != PLAIN:
            with processes.Programs(directory) as programs:
                certificates = directory / "certificates"
                made = programs.run_dslide("certs", "dev", "--output", certificates)
                processes.assert_ended(made, 0)
            honest_tls = credentials(certificates, "trainer")
            tls = context(certificates, "trainer" if position == INSIDER else None)
        for attack in attacks:
            with Subject(directory / attack.__name__, certificates) as subject:
                yield measure(attack, position, subject, Target(subject.address, tls), honest_tls,
                              seconds)
