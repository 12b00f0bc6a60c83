"""compose.tls.yaml on one engine: who is refused by running containers, and when."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import strangers
from certificate_authority import CertificateAuthority
from compose_check import COMPOSE, DATA, EXAMPLE, SHARDS, Project, metric_sum, result_of
from engine import Engine, Word, check, note, run, say

USER = 10001
FILES = ("compose.yaml", "compose.tls.yaml", ".env")
ROLES = ("coordinator", "shard", "trainer")
DOORS = {"coordinator": 7000} | {shard: 7010 for shard in SHARDS}
JOB = "check"
EPOCHS = 2
# Of always guessing the most frequent label: 0.02.
LEARNT = 0.2
# Statuses of `dslide`: its certificate is not for that; nobody lets it in, or nobody may be let in.
DENIED, UNREACHABLE = 2, 4


def knock(python: Callable[..., Any], authority: CertificateAuthority, doors: Sequence[str],
          *flags: str) -> int:
    """Visits doors as strangers.py does, with python(arguments…, accept=…); how many it refused."""
    done = python(strangers.__file__, *authority.visit(), *flags, *doors,
                  accept=(0, strangers.FOUND))
    found = json.loads(done.stdout.splitlines()[-1])
    note(f"{found['refused']} of {found['tried']} strangers were refused {' '.join(flags)}")
    check(not found["served"], f"served without a good certificate: {found['served']}")
    check(not found["unknown"], f"not served, although known: {found['unknown']}")
    return int(found["refused"])


def prepare(directory: pathlib.Path, name: str, what: str) -> pathlib.Path:
    """An empty folder of that name for a check in which strangers knock."""
    strangers.require()
    folder = directory / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    say(what)
    return folder


def judge(trained: Any, lost: float, how: str, epochs: int) -> None:
    """What a training on several shards had to reach."""
    check(lost == 0, f"{lost:g} confirmed updates were lost")
    check(trained["p_at_1"] >= LEARNT, f"P@1 {how} is {trained['p_at_1']}")
    note(f"P@1 {trained['p_at_1']:.4f} after {epochs} epochs, lost {lost:g}")


def here(*arguments: Word, accept: Sequence[int] = (0,)) -> subprocess.CompletedProcess[str]:
    return run([sys.executable, *arguments], accept=accept)


def lay_out(authority: CertificateAuthority, folder: pathlib.Path, role: str, name: str) -> None:
    """Puts a certificate where the role's services look for it (docs/operate/deployment.md)."""
    target = folder / "tls" / role
    target.mkdir(parents=True, exist_ok=True)
    for source, kept in (("ca.crt", "ca.crt"), (f"{name}.crt", "tls.crt"),
                         (f"{name}.key", "tls.key")):
        (target / kept).unlink(missing_ok=True)
        shutil.copy(authority.own / source, target / kept)
        os.chown(target / kept, USER, USER)


class Overlay:
    """A folder with the compose files and their folder tls, and a cluster of it."""

    def __init__(self, engine: Engine, image: str, example: str,
                 directory: pathlib.Path) -> None:
        self._folder = directory / "compose"
        self._folder.mkdir()
        for name in FILES:
            shutil.copy(COMPOSE.with_name(name), self._folder)
        self.authority = CertificateAuthority(engine, image, directory / "certificates", DOORS)
        self.authority.issue("bound", JOB, "query")
        self.authority.issue("stolen")
        for role in ROLES:
            self.show(role, role)
        self.show("trainer", "bound")
        (self._folder / "tls/crl").mkdir()
        self.project = Project(
            engine, f"dslide-tls-{os.getpid()}", [self._folder / name for name in FILES[:2]],
            {"DSLIDE_IMAGE": image, "DSLIDE_EXAMPLE_IMAGE": example})

    def show(self, role: str, name: str) -> None:
        """From now on the services of the role show the certificate of that name."""
        lay_out(self.authority, self._folder, role, name)

    def revoke(self, name: str) -> None:
        """Revokes it for running containers: a new list, and nothing is restarted."""
        note(f"the certificate {name} is revoked")
        shutil.copy(self.authority.revoke(name), self._folder / "tls/crl")

    def trainer(self, *arguments: Word) -> list[Word]:
        return ["run", "--rm", "-T", "trainer", *arguments, "-q", "-o", "json"]

    def doors(self) -> list[str]:
        return [f"{self.project.engine.address(self.project.container(service))}:{port}"
                for service, port in DOORS.items()]

    def evaluate(self, accept: int = 0) -> Any:
        """What `dslide eval` of the model says, with that status; impatient, if it is refused."""
        patience = [] if accept == 0 else ["--timeout", "5s"]
        done = self.project.compose(
            *self.trainer("eval", "--data", f"{EXAMPLE}/test.txt", *patience), within=600,
            accept=(accept,))
        return json.loads(done.stdout.splitlines()[-1])["p_at_1"] if accept == 0 else done.stderr


def train(overlay: Overlay) -> tuple[Any, int]:
    """A training, during which somebody else's certificate is revoked; what strangers saw."""
    denied = overlay.project.compose(*overlay.trainer("train", *DATA, "--epochs", EPOCHS,
                                                        "--job", "another"),
                                     within=300, accept=(DENIED,))
    check('job "another" is not for this certificate' in denied.stderr,
          f"a certificate of job {JOB} was refused for another with {denied.stderr!r}")
    note("a trainer was refused a job that its certificate is not for")
    doors = overlay.doors()
    refused = knock(here, overlay.authority, doors, "--known", "stolen")
    trainer = overlay.project.start("run", "--rm", "-T", "trainer", "train", *DATA, "--job", JOB,
                                    "--overwrite", "--epochs", EPOCHS, "-o", "json")
    try:
        trainer.wait_for_stderr(r"epoch 1: P@1")
        overlay.revoke("stolen")
        refused += knock(here, overlay.authority, doors, "--revoked", "stolen")
        return result_of(trainer), refused
    finally:
        trainer.kill()


def check_revoked_peers(overlay: Overlay, trained: float) -> None:
    """The trainer's own certificate is revoked, then that of the shards, which trainers look up."""
    overlay.revoke("bound")
    check("handshake" in overlay.evaluate(UNREACHABLE), "a revoked trainer was not refused in the "
          "handshake")
    overlay.show("trainer", "trainer")
    kept = overlay.evaluate()
    check(abs(kept - trained) < 1e-6, f"P@1 with another certificate is {kept}, was {trained}")
    overlay.revoke("shard")
    check("handshake" in overlay.evaluate(UNREACHABLE),
          "a trainer did not refuse revoked shards in the handshake")
    note("a revoked trainer was refused, a good one was served and refused revoked shards")


def check_tls(engine: Engine, image: str, example: str,
              directory: pathlib.Path) -> dict[str, Any]:
    """Figures of a short training with certificates, some of which are revoked meanwhile."""
    directory = prepare(directory, "overlay",
                        "Training with certificates, of which some are revoked")
    overlay = Overlay(engine, image, example, directory)
    try:
        overlay.project.up()
        trained, refused = train(overlay)
        shards = [overlay.project.container(shard) for shard in SHARDS]
        lost = metric_sum(engine, shards, 7011, "dslide_shard_acked_loss_total")
        check_revoked_peers(overlay, trained["p_at_1"])
    finally:
        overlay.project.remove()
    shutil.rmtree(directory)
    judge(trained, lost, "with certificates", EPOCHS)
    return {"tls_p_at_1": trained["p_at_1"], "tls_lost": int(lost), "tls_refused": refused}
