"""The files that render.py makes, on machines that have nothing but a network in common."""

import json
import os
import pathlib
import re
import shutil
import sys
import time

import strangers
from compose_check import CUT_SECONDS, EXAMPLE, Project, Running
from engine import ROOT, note, run, say
from image_check import check
from virtual_machines import machines

sys.path.insert(0, str(ROOT / "deploy/compose/vms"))
import render  # noqa: E402

EPOCHS = 3
TRAINER = "vm-d"
LAYOUT = {"vm-a": ["coordinator = true", "shards = [0]"], "vm-b": ["shards = [1]"],
          "vm-c": ["shards = [2]"], TRAINER: []}
SERVERS = ("vm-a", "vm-b", "vm-c")
# Of always guessing the most frequent label: 0.02.
LEARNT = 0.2


def inventory(parts, image, tls, data):
    lines = ["[cluster]", f'image = "{image}"', f"tls = {str(tls).lower()}",
             'durability = "log"', 'shard_memory = "1GiB"', "publish_admin = true"]
    for name, machine in parts.items():
        lines += ["[[machine]]", f'name = "{name}"', f'address = "{machine.address}"',
                  *LAYOUT[name]]
        if name == TRAINER:
            lines.append(f'trainer = "{data}"')
    return "\n".join(lines) + "\n"


def has_certificates(engine, image):
    """Whether the image's programs know TLS."""
    return "certs" in engine.output("run", "--rm", image, "--help")


def make_certificates(engine, image, parts, directory):
    """Development certificates for the addresses of all machines, in dev; in foreign, strangers'."""
    directory.mkdir()
    directory.chmod(0o777)
    hosts = [word for machine in parts.values() for word in ("--host", machine.address)]
    for name in ("dev", "foreign"):
        engine.docker("run", "--rm", "-v", f"{directory}:/certs", image, "certs", "dev", "--output",
                      f"/certs/{name}", *hosts)
    return directory / "dev"


def copy_example(engine, example, directory):
    container = engine.output("create", example)
    try:
        engine.docker("cp", f"{container}:{EXAMPLE}", directory)
    finally:
        engine.docker("rm", container)


def lost_updates(parts):
    found = 0.0
    for name in SERVERS:
        page = parts[name].page(f"{parts[name].address}:7011/metrics")
        found += float(re.search(r"^dslide_shard_acked_loss_total (\S+)", page, re.M).group(1))
    return found


def start(projects):
    """Starts the servers machine by machine, as people would; the seconds until all are ready."""
    begun = time.monotonic()
    # Shards wait for the coordinator.
    for name in SERVERS:
        projects[name].compose("up", "-d", within=300)
    for name in SERVERS:
        projects[name].up()
    return round(time.monotonic() - begun, 1)


def train(projects, parts):
    """A short training while one machine is cut off and another's engine is restarted."""
    trainer = projects[TRAINER].start(
        "run", "--rm", "-T", "trainer", "train", "--data=/data/train.txt", "--eval=/data/test.txt",
        "--model=/data/model.json", "--epochs", EPOCHS, "-o", "json")
    try:
        trainer.wait_for(r"epoch 1: P@1")
        note(f"vm-b is cut off for {CUT_SECONDS} s")
        parts["vm-b"].plug(False)
        time.sleep(CUT_SECONDS)
        parts["vm-b"].plug(True)
        trainer.wait_for(r"epoch 2: P@1")
        note("the shard of vm-c is killed and started")
        projects["vm-c"].compose("kill", "-s", "SIGKILL", "shard-2")
        projects["vm-c"].up()
        return trainer.result()
    finally:
        trainer.kill()


def turn_away(parts, certificates):
    """Strangers knock at all servers from the trainer's machine: how many were refused."""
    doors = [f"{parts['vm-a'].address}:7000", *(f"{parts[name].address}:7010" for name in SERVERS)]
    done = parts[TRAINER].python(strangers.__file__, "--certificates", certificates, "--foreign",
                                 certificates.with_name("foreign"), "--work",
                                 certificates.with_name("strangers"), *doors,
                                 accept=(0, strangers.FOUND))
    found = json.loads(done.stdout)
    note(f"{found['refused']} of {found['tried']} strangers were refused")
    check(not found["served"], f"served without a certificate of the cluster: {found['served']}")
    check(not found["unknown"], f"not served, although known: {found['unknown']}")
    return {"vms_strangers": found["tried"], "vms_strangers_refused": found["refused"]}


def check_machines(engine, image, example, directory):
    """Figures of a training over four machines."""
    strangers.require()
    directory = pathlib.Path(directory) / "vms"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    say("Training over four machines, each with an engine and a network of its own")
    archive, data = directory / "images.tar", directory / "data"
    engine.docker("save", "-o", archive, image, within=300)
    copy_example(engine, example, data)
    with machines(LAYOUT, directory / "engines") as parts:
        tls = has_certificates(engine, image)
        if not tls:
            note("SKIPPED: TLS between the machines; these programs have none, so tls = false")
        certificates = make_certificates(engine, image, parts, directory / "certs") if tls else None
        render.render(inventory(parts, image, tls, data), directory / "rendered", certificates)
        projects = {}
        try:
            for name, machine in parts.items():
                machine.start_engine(archive)
                projects[name] = Project(machine.engine, "dslide",
                                         [directory / "rendered" / name / "compose.yaml"], {})
            up_seconds = start(projects)
            refused = turn_away(parts, certificates) if tls else {}
            trained = train(projects, parts)
            lost = lost_updates(parts)
        finally:
            for project in projects.values():
                project.remove()
    shutil.rmtree(directory)
    check(lost == 0, f"{lost:g} confirmed updates were lost")
    check(trained["p_at_1"] >= LEARNT, f"P@1 over machines is {trained['p_at_1']}")
    note(f"P@1 {trained['p_at_1']:.4f} after {EPOCHS} epochs, lost {lost:g}")
    return {"vms": len(LAYOUT), "vms_tls": tls, "vms_p_at_1": trained["p_at_1"],
            "vms_lost": int(lost), "vms_up_seconds": up_seconds, **refused}
