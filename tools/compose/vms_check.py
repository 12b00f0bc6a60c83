"""The files that render.py makes, on machines that have nothing but a network in common."""

import pathlib
import shutil
import sys
import time
from collections.abc import Callable
from typing import Any

from certificate_authority import CertificateAuthority
from compose_check import CUT_SECONDS, EXAMPLE, Project, result_of
from engine import ROOT, Engine, note
from processes import metric_values
from tls_check import judge, knock, prepare
from virtual_machines import Machine, machines

sys.path.insert(0, str(ROOT / "deploy/compose/vms"))
import render  # noqa: E402

Parts = dict[str, Machine]
Projects = dict[str, Project]
EPOCHS = 3
TRAINER = "vm-d"
LAYOUT = {"vm-a": ["coordinator = true", "shards = [0]"], "vm-b": ["shards = [1]"],
          "vm-c": ["shards = [2]"], TRAINER: []}
SERVERS = ("vm-a", "vm-b", "vm-c")


def inventory(parts: Parts, image: str, data: pathlib.Path) -> str:
    lines = ["[cluster]", f'image = "{image}"', "tls = true", "crl = true",
             'durability = "log"', 'shard_memory = "1GiB"', "publish_admin = true"]
    for name, machine in parts.items():
        lines += ["[[machine]]", f'name = "{name}"', f'address = "{machine.address}"',
                  *LAYOUT[name]]
        if name == TRAINER:
            lines.append(f'trainer = "{data}"')
    return "\n".join(lines) + "\n"


def copy_example(engine: Engine, example: str, directory: pathlib.Path) -> None:
    container = engine.output("create", example)
    try:
        engine.docker("cp", f"{container}:{EXAMPLE}", directory)
    finally:
        engine.docker("rm", container)


def lost_updates(parts: Parts) -> float:
    pages = [parts[name].page(f"{parts[name].address}:7011/metrics") for name in SERVERS]
    return sum(sum(metric_values(page, "dslide_shard_acked_loss_total")) for page in pages)


def start(projects: Projects) -> float:
    """Starts the servers machine by machine, as people would; the seconds until all are ready."""
    begun = time.monotonic()
    # Shards wait for the coordinator.
    for name in SERVERS:
        projects[name].compose("up", "-d", within=300)
    for name in SERVERS:
        projects[name].up()
    return round(time.monotonic() - begun, 1)


def train(projects: Projects, parts: Parts, withdraw: Callable[[], None]) -> Any:
    """A short training while a certificate is withdrawn, one machine is cut off and the shard of
    another is killed."""
    trainer = projects[TRAINER].start(
        "run", "--rm", "-T", "trainer", "train", "--data=/data/train.txt", "--eval=/data/test.txt",
        "--model=/data/model.json", "--epochs", EPOCHS, "-o", "json")
    try:
        trainer.wait_for_stderr(r"epoch 1: P@1")
        withdraw()
        note(f"vm-b is cut off for {CUT_SECONDS} s")
        parts["vm-b"].plug(False)
        time.sleep(CUT_SECONDS)
        parts["vm-b"].plug(True)
        trainer.wait_for_stderr(r"epoch 2: P@1")
        note("the shard of vm-c is killed and started")
        projects["vm-c"].compose("kill", "-s", "SIGKILL", "shard-2")
        projects["vm-c"].up()
        return result_of(trainer)
    finally:
        trainer.kill()


class Visits:
    """What strangers see of all servers, from the trainer's machine; one is a stranger later."""

    def __init__(self, parts: Parts, authority: CertificateAuthority,
                 rendered: pathlib.Path) -> None:
        self._parts = parts
        self._authority = authority
        self._rendered = rendered
        self._doors = [f"{parts['vm-a'].address}:7000",
                       *(f"{parts[name].address}:7010" for name in SERVERS)]
        self.refused = 0
        authority.issue("stolen")

    def knock(self, *flags: str) -> None:
        self.refused += knock(self._parts[TRAINER].python, self._authority, self._doors, *flags)

    def revoke(self) -> None:
        """Puts the new list beside the others on all machines (docs/operate/deployment.md)."""
        note("the certificate stolen is revoked")
        made = self._authority.revoke("stolen")
        for name in self._parts:
            shutil.copy(made, self._rendered / name / "crl")
        self.knock("--revoked", "stolen")


def run_cluster(parts: Parts, authority: CertificateAuthority, directory: pathlib.Path,
                images: pathlib.Path) -> tuple[Any, float, float, int]:
    """Trains over the machines; (result, lost updates, seconds until ready, strangers refused)."""
    projects: Projects = {}
    try:
        for name, machine in parts.items():
            projects[name] = Project(machine.start_engine(images), "dslide",
                                     [directory / name / "compose.yaml"], {})
        up_seconds = start(projects)
        visits = Visits(parts, authority, directory)
        visits.knock("--known", "stolen")
        trained = train(projects, parts, visits.revoke)
        return trained, lost_updates(parts), up_seconds, visits.refused
    finally:
        for project in projects.values():
            project.remove()


def check_machines(engine: Engine, image: str, example: str,
                   directory: pathlib.Path) -> dict[str, Any]:
    """Figures of a training over four machines."""
    directory = prepare(directory, "vms",
                        "Training over four machines, each with an engine and a network of its own")
    archive, data, rendered = (directory / name for name in ("images.tar", "data", "rendered"))
    engine.docker("save", "-o", archive, image, within=300)
    copy_example(engine, example, data)
    with machines(LAYOUT, directory / "engines") as parts:
        authority = CertificateAuthority(engine, image, directory / "certificates",
                                         [machine.address for machine in parts.values()])
        render.render(inventory(parts, image, data), rendered, authority.own)
        trained, lost, up_seconds, refused = run_cluster(parts, authority, rendered, archive)
    shutil.rmtree(directory)
    judge(trained, lost, "over machines", EPOCHS)
    return {"vms": len(LAYOUT), "vms_p_at_1": trained["p_at_1"], "vms_lost": int(lost),
            "vms_up_seconds": up_seconds, "vms_refused": refused}
