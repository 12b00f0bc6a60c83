"""Each alert fires when its cause is made, and not before: real servers under a real Prometheus.

Alerts wait for nothing here, and HASTE shortens what some of them look back on. The coordinator's
absence needs a Prometheus whose targets come and go: ./run kubernetes operators.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import pathlib
import random
import resource
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import dashboards
import overload
import poison
import poison_updates
import processes
import pytest
import shard_client
import yaml
from dslide.v1.common_pb2 import RequestEnvelope
from dslide.v1.shard_pb2 import HeadBackward, HeadForward, StepRequest
from grpc_client import CallFailed, Connection, ConnectionLost
from process_case import ProcessCase
from processes import Process, Server
from prometheus_server import PrometheusServer
from read_only_disk import ReadOnlyDisk
from small_disk import CannotMount, SmallDisk

CLIENT = b"makes the causes"
# What is written in the rules of some alerts instead of what.
HASTE = {
    "DslideTrainingStalled": {"[15m]": "[5s]"},
    "DslideNoClusterCheckpoint": {"> 86400": "> 3"},
    "DslideImageTooOld": {"> 21600": "> 3", "> 2147483648": "> 0"},
    "DslideRecallLow": {"[30m]": "[10s]", "[6h] offset 30m": "[1m] offset 10s"},
}
ELSEWHERE = {"DslideCoordinatorGone"}
MISSING = [tool for tool in ("prometheus", "cc") if shutil.which(tool) is None]
# A step costs more bytes than its rows have.
TINY = shard_client.table_spec("head", 4, 4, init="uniform", role="head")
MODEL = shard_client.model_spec("tiny", TINY)
SLOW_SYNC = """
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
static int slow(long call, int fd) {
  if (access(getenv("SLOW_DISK"), F_OK) == 0) usleep(800000);
  return (int)syscall(call, fd);
}
int fsync(int fd) { return slow(SYS_fsync, fd); }
int fdatasync(int fd) { return slow(SYS_fdatasync, fd); }
"""
pytestmark = [
    pytest.mark.skipif(bool(MISSING),
                       reason=f"{', '.join(MISSING)} not installed: ./run observability"),
    pytest.mark.usefixtures("bin_dir")]
tested: set[str] = set()


def causes(*alerts: str) -> pytest.MarkDecorator:
    """Of a test of these alerts."""
    tested.update(alerts)
    return pytest.mark.parametrize("alerts", [alerts], ids=[" ".join(alerts)])


def hasty_rules() -> dict[str, Any]:
    """The alerts as they are, but for HASTE and their waiting."""
    rules = []
    for name, rule in dashboards.alerts().items():
        expression = rule["expr"]
        for old, new in HASTE.get(name, {}).items():
            assert old in expression, name
            expression = expression.replace(old, new)
        rules.append(rule | {"expr": expression, "for": "0s"})
    return {"groups": [{"name": "hasty", "rules": rules}]}


def in_step(step: int, **part: Any) -> Callable[[RequestEnvelope], StepRequest]:
    def make(envelope: RequestEnvelope) -> StepRequest:
        envelope.model = MODEL.name
        return StepRequest(envelope=envelope, step=step, **part)

    return make


def step_forward(step: int) -> Callable[[RequestEnvelope], StepRequest]:
    return in_step(step, head_forward=HeadForward(
        table=TINY.name, hidden=shard_client.matrix([[0.5] * TINY.dim], TINY.dim),
        label_offsets=shard_client.ids([0, 1]), label_ids=shard_client.ids([0]),
        label_targets=shard_client.floats([1.0])))


def step_backward(step: int) -> Callable[[RequestEnvelope], StepRequest]:
    return in_step(step, head_backward=HeadBackward(
        table=TINY.name, log_partitions=shard_client.floats([1.5]), scale=1.0))


class AlertCausesTest(ProcessCase):
    def set_up(self) -> None:
        self.folders = map(str, itertools.count())

    def new_folder(self) -> pathlib.Path:
        return self.directory / f"data-{next(self.folders)}"

    def lone_shard(self, *arguments: object) -> Server:
        return self.programs.start_lone_shard("--admin", "127.0.0.1:0", *arguments)

    def again(self, shard: Server, *arguments: object, program: str = "dslide-shard") -> Server:
        """Another shard without a coordinator with the page of one that has ended."""
        return Server(self.programs.start(
            program, "--coordinator", "", "--listen", "127.0.0.1:0", "--admin", shard.admin,
            *arguments))

    def cluster(self, *shard_arguments: object, shards: int = 1,
                coordinator: tuple[object, ...] = (), folder: pathlib.Path | None = None) -> None:
        """Starts self.coordinator and self.shards, which have disks; `folder`: that of all."""
        self.coordinator = self.programs.start_coordinator(
            "--data-dir", self.new_folder(), *coordinator, shards=shards)
        self.shards = [
            self.cluster_shard(shard, "--data-dir", folder or self.new_folder(), *shard_arguments)
            for shard in range(shards)]

    def cluster_with_model(self, *shard_arguments: object,
                           folder: pathlib.Path | None = None) -> Connection:
        """A cluster of one shard; the connection is to its coordinator."""
        self.cluster(*shard_arguments, folder=folder)
        coordinator = self.connect(self.coordinator)
        shard_client.register_model(coordinator, MODEL)
        return coordinator

    def cluster_shard(self, number: int, *arguments: object) -> Server:
        return self.programs.start_shard(
            self.coordinator, "--shard-id", number, "--listen", "127.0.0.1:0", "--admin",
            "127.0.0.1:0", "--threads", 1, *arguments)

    def connect(self, server: Server) -> Connection:
        return self.enter(Connection(server.address))

    def train(self, *arguments: object) -> Process:
        data = self.directory / "train.txt"
        if not data.exists():
            processes.assert_ended(self.run_dslide(
                "data", "gen", "--output", data, "--points", 3000, "--features", 1000, "--labels",
                2000, "--seed", 5), 0)
        return self.start(
            "dslide", "train", "--data", data, "--cluster", self.coordinator.address,
            "--batch-size", 32, "--epochs", 100000, "--patience", 0, "--threads", 1, *arguments)

    def train_hashed(self, name: str, *arguments: object) -> Process:
        return self.train("--job", name, "--name", name, "--dim", 16, "--max-active", 200,
                          *arguments)

    def watch(self, alerts: tuple[str, ...], *shards: Server,
              coordinator: Server | None = None) -> None:
        """Begins to; none of the alerts fires yet."""
        rules = self.directory / "rules.yaml"
        rules.write_text(yaml.safe_dump(hasty_rules()), encoding="utf-8")
        self.alerts = set(alerts)
        self.prometheus = PrometheusServer(self.programs, {
            "dslide-shard": [shard.admin for shard in shards],
            "dslide-coordinator": [coordinator.admin] if coordinator else [],
            "dslide-trainer": []}, rules)
        processes.wait_until(self.are_evaluated, lambda: "all rules are evaluated")
        assert self.firing() & self.alerts == set()

    def are_evaluated(self) -> bool:
        found = [rule for group in (self.prometheus.get("rules") or {"groups": []})["groups"]
                 for rule in group["rules"]]
        assert all(rule["health"] != "err" for rule in found), found
        return bool(found) and all(rule["health"] == "ok" for rule in found)

    def firing(self) -> set[str]:
        found = self.prometheus.get("alerts") or {"alerts": []}
        return {alert["labels"]["alertname"] for alert in found["alerts"]
                if alert["state"] == "firing"}

    def wait(self, cause: Callable[[], object] = lambda: None) -> None:
        """Until they fire; the cause is made as often as it takes."""
        seen: set[str] = set()

        def fire() -> bool:
            cause()
            seen.update(self.firing())
            return seen >= self.alerts

        processes.wait_until(fire, lambda: f"{self.alerts - seen} fire as well as {seen}")

    def is_scraped(self, shard: Server) -> bool:
        """Whether Prometheus has seen the process that is there now."""
        started = processes.metric(shard.admin, "process_start_time_seconds")
        found = self.prometheus.get("query", query="process_start_time_seconds")["result"]
        return any(float(series["value"][1]) == started for series in found)

    # --- availability --------------------------------------------------------------------------

    @causes("DslideProcessDown", "DslideShardsMissing")
    def test_a_shard_is_killed(self, alerts: tuple[str, ...]) -> None:
        self.cluster(shards=2)
        self.watch(alerts, *self.shards, coordinator=self.coordinator)
        self.shards[1].process.kill()
        self.wait()

    @causes("DslideNotReady", "DslideInsecure")
    def test_a_shard_waits_for_its_coordinator_in_plaintext(self, alerts: tuple[str, ...]) -> None:
        shard = self.lone_shard()
        self.watch(alerts, shard)
        shard.process.stop()
        self.start("dslide-shard", "--coordinator", f"127.0.0.1:{processes.free_port()}",
                   "--listen", "0.0.0.0:0", "--advertise", "localhost:1", "--insecure",
                   "--admin", shard.admin)
        self.wait()

    @causes("DslideRestarts")
    def test_a_shard_is_started_again_and_again(self, alerts: tuple[str, ...]) -> None:
        shard = self.lone_shard()
        self.watch(alerts, shard)
        for _ in range(4):
            shard.process.kill()
            shard = self.again(shard)
            processes.wait_until(lambda: self.is_scraped(shard), lambda: "it is scraped")
        self.wait()

    @causes("DslideTrainersDie", "DslideTrainingStalled", "DslideNoClusterCheckpoint")
    def test_trainers_die(self, alerts: tuple[str, ...]) -> None:
        self.cluster(coordinator=("--lease-timeout", "2s", "--checkpoint-interval", "off"))
        self.watch(alerts, *self.shards, coordinator=self.coordinator)

        def one_dies() -> bool:
            trainer = self.train("--job", "deadly", "--dim", 16)
            trainer.wait_for_stderr("epoch")
            trainer.kill()
            return "DslideTrainersDie" in self.firing()

        processes.wait_until(one_dies, lambda: "it is told that they die")
        self.wait()

    @causes("DslideVersionsDiffer")
    def test_an_upgrade_is_left_half_done(self, alerts: tuple[str, ...]) -> None:
        program = processes.bin_dir() / "dslide-shard"
        version = subprocess.run([program, "--version"], capture_output=True, text=True,
                                 check=True).stdout.split()[1]
        other = self.directory / "dslide-shard"
        other.write_bytes(program.read_bytes().replace(
            version.encode(), f"{version[:-1]}{'1' if version[-1] == '0' else '0'}".encode()))
        other.chmod(0o755)
        shards = [self.lone_shard() for _ in range(2)]
        self.watch(alerts, *shards)
        shards[0].process.stop()
        self.again(shards[0], program=str(other))
        self.wait()

    # --- durability ----------------------------------------------------------------------------

    @causes("DslideAckedLoss")
    def test_a_shard_forgets_what_it_has_confirmed(self, alerts: tuple[str, ...]) -> None:
        shard = self.lone_shard()
        self.watch(alerts, shard)
        shard_client.hello(self.connect(shard), "job", CLIENT, 7)
        self.wait()

    @causes("DslideModelRecreated")
    def test_a_shard_comes_back_without_its_rows(self, alerts: tuple[str, ...]) -> None:
        self.cluster_with_model()
        self.watch(alerts, *self.shards, coordinator=self.coordinator)
        self.shards[0].process.kill()
        self.cluster_shard(0, "--data-dir", self.new_folder())
        self.wait()

    @causes("DslideClusterCheckpointFails")
    def test_checkpoints_fail(self, alerts: tuple[str, ...]) -> None:
        coordinator = self.cluster_with_model()
        self.watch(alerts, *self.shards, coordinator=self.coordinator)
        self.shards[0].process.kill()

        def fail() -> None:
            with contextlib.suppress(CallFailed):
                shard_client.create_cluster_checkpoint(coordinator)

        self.wait(fail)

    @causes("DslideClusterCheckpointDamaged")
    def test_a_checkpoint_rots(self, alerts: tuple[str, ...]) -> None:
        coordinator = self.cluster_with_model()
        shard_client.create_cluster_checkpoint(coordinator)
        self.watch(alerts, *self.shards, coordinator=self.coordinator)
        self.spoil(self.directory / "data-1", "*.sst")
        assert self.run_dslide("checkpoint", "verify", "--cluster",
                               self.coordinator.address).code != 0
        self.wait()

    @staticmethod
    def spoil(folder: pathlib.Path, pattern: str) -> None:
        """Another byte in the middle of each such file."""
        found = list(folder.rglob(pattern))
        assert found
        for path in found:
            content = bytearray(path.read_bytes())
            content[len(content) // 2] ^= 1
            path.write_bytes(content)

    @causes("DslideDamagedImage")
    def test_an_image_rots(self, alerts: tuple[str, ...]) -> None:
        folder = self.new_folder()
        shard = self.lone_shard("--data-dir", folder, "--durability", "log")
        shard_client.create_model(self.connect(shard), MODEL)
        self.watch(alerts, shard)
        shard.process.stop()
        self.spoil(folder, "*.sst")
        self.again(shard, "--data-dir", folder, "--durability", "log")
        self.wait()

    @causes("DslideDiskFull")
    def test_a_disk_is_full(self, alerts: tuple[str, ...]) -> None:
        disk = self.mounted(SmallDisk, 64)
        sender = self.logging_shard(disk.path, alerts, "--disk-reserve", "1MiB")
        disk.fill()

        def press() -> None:
            with contextlib.suppress(CallFailed):
                sender.send(step_forward(1))

        self.wait(press)

    @causes("DslideLogFailed")
    def test_a_disk_turns_read_only(self, alerts: tuple[str, ...]) -> None:
        disk = self.mounted(ReadOnlyDisk, 64)
        self.cluster_with_model("--durability", "log", "--disk-reserve", 0, folder=disk.path)
        sender = poison.Sender(self.connect(self.shards[0]), CLIENT)
        self.watch(alerts, *self.shards, coordinator=self.coordinator)
        disk.break_down()
        with contextlib.suppress(CallFailed, ConnectionLost):
            sender.send(step_forward(1))
        self.wait()

    def mounted(self, kind: type[SmallDisk] | type[ReadOnlyDisk], megabytes: int) -> Any:
        try:
            return self.enter(kind(self.new_folder(), megabytes))
        except CannotMount as error:
            pytest.skip(str(error))

    def logging_shard(self, folder: pathlib.Path, alerts: tuple[str, ...], *arguments: object,
                      environment: dict[str, str] | None = None) -> poison.Sender:
        """A client of a shard that is watched and syncs before it confirms."""
        shard = Server(self.start(
            "dslide-shard", "--coordinator", "", "--listen", "127.0.0.1:0", "--admin",
            "127.0.0.1:0", "--data-dir", folder, "--durability", "log", *arguments,
            environment=environment))
        connection = self.connect(shard)
        shard_client.create_model(connection, MODEL)
        self.watch(alerts, shard)
        return poison.Sender(connection, CLIENT)

    @causes("DslideLogSyncSlow")
    def test_a_disk_is_slow(self, alerts: tuple[str, ...]) -> None:
        library = self.directory / "slow.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-o", library, "-"], text=True,
                       input=SLOW_SYNC, check=True)
        slow = self.directory / "slow"
        sender = self.logging_shard(self.new_folder(), alerts, environment={
            "LD_PRELOAD": str(library), "SLOW_DISK": str(slow)})
        slow.touch()
        steps = itertools.count(1)
        self.wait(lambda: self.update(sender, next(steps)))

    @causes("DslideImageTooOld")
    def test_no_image_is_written(self, alerts: tuple[str, ...]) -> None:
        sender = self.logging_shard(self.new_folder(), alerts)
        steps = itertools.count(1)
        self.wait(lambda: self.update(sender, next(steps)))

    @staticmethod
    def update(sender: poison.Sender, step: int) -> None:
        for make in (step_forward(step), step_backward(step)):
            assert not sender.send(make)

    # --- load ----------------------------------------------------------------------------------

    @causes("DslideQueueSlow", "DslideOverload")
    def test_a_shard_is_asked_for_more_than_it_can_do(self, alerts: tuple[str, ...]) -> None:
        # A queue that takes a fast machine more than the alert's two seconds.
        shard = self.lone_shard("--queue-budget", "8MiB")
        shard_client.create_model(self.connect(shard), overload.MODEL)
        self.watch(alerts, shard)
        self.wait(lambda: overload.generated(5.0, shard.address, rate=3000)())

    @causes("DslideMemoryNearBudget")
    def test_tables_fill_the_memory(self, alerts: tuple[str, ...]) -> None:
        shard = self.lone_shard("--memory-budget", "1MiB")
        self.watch(alerts, shard)
        table = shard_client.table_spec("rows", 7_800, 16)
        shard_client.create_model(self.connect(shard), shard_client.model_spec("model", table))
        self.wait()

    @causes("DslideFilesNearLimit")
    def test_files_are_open(self, alerts: tuple[str, ...]) -> None:
        shard = self.lone_shard()
        self.watch(alerts, shard)
        pid = shard.process.pid
        used = len(os.listdir(f"/proc/{pid}/fd"))
        limit = used * 6 // 5
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, limit))
        self.wait()

    @causes("DslideStale", "DslideUnbalanced", "DslideNothingSaved")
    def test_steps_that_take_long_all_go_to_one_shard(self, alerts: tuple[str, ...]) -> None:
        shards = [self.lone_shard() for _ in range(3)]
        for shard in shards:
            shard_client.create_model(self.connect(shard), MODEL)
        self.watch(alerts, *shards)
        sender = poison.Sender(self.connect(shards[0]), CLIENT)
        for make in (step_forward, step_backward):
            for step in range(1, 201):
                assert not sender.send(make(step))
        self.wait()

    # --- training ------------------------------------------------------------------------------

    @causes("DslideRecallLow")
    def test_hash_tables_find_little(self, alerts: tuple[str, ...]) -> None:
        self.cluster()
        self.watch(alerts, *self.shards, coordinator=self.coordinator)
        good = self.train_hashed("good", "--tables", 64, "--codes", 2)
        processes.wait_until(lambda: self.prometheus.get("query", query=(
            'increase(dslide_shard_recall_found_total{top="10"}[5s]) > 10'))["result"],
            lambda: "rows are found", [good])
        good.stop()
        self.train_hashed("bad", "--tables", 1, "--codes", 20)
        self.wait()

    @causes("DslideBucketsSkewed")
    def test_rows_are_all_alike(self, alerts: tuple[str, ...]) -> None:
        self.cluster()
        self.watch(alerts, *self.shards, coordinator=self.coordinator)
        spec = self.directory / "alike.json"
        spec.write_text(json.dumps({"name": "alike", "tables": [
            {"name": "input", "role": "embedding", "dim": 16},
            {"name": "labels", "role": "head", "dim": 16, "init": {"kind": "zero"},
             "optimizer": {"learning_rate": 1e-9}, "head": {"hash": {"codes_per_table": 16}}}]}))
        self.train("--job", "alike", "--model", spec)
        self.wait()

    @causes("DslideRowsRejected")
    def test_rows_grow_beyond_the_bound(self, alerts: tuple[str, ...]) -> None:
        shard = self.lone_shard()
        connection = self.connect(shard)
        for model in poison_updates.MODELS:
            shard_client.create_model(connection, model)
        self.watch(alerts, shard)
        sender = poison.Sender(connection, CLIENT)
        assert not sender.send(poison_updates.brink)
        more = poison_updates.HARMLESS["over_the_brink"]
        assert not sender.send(lambda envelope: more(random.Random(1), envelope))
        self.wait()

    # --- security ------------------------------------------------------------------------------

    @causes("DslideCertificateExpires")
    def test_a_certificate_ends(self, alerts: tuple[str, ...]) -> None:
        folder = self.directory / "certs"
        processes.assert_ended(
            self.run_dslide("certs", "dev", "--output", folder, "--days", 6), 0)
        shard = self.lone_shard()
        self.watch(alerts, shard)
        shard.process.stop()
        self.again(shard, "--tls-ca", folder / "ca.crt", "--tls-cert", folder / "shard.crt",
                   "--tls-key", folder / "shard.key")
        self.wait()


def test_no_alert_was_forgotten() -> None:
    assert tested | ELSEWHERE == set(dashboards.alerts())
    assert not tested & ELSEWHERE
