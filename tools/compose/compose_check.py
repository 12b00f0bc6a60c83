"""The compose files on one engine: a training through a stopped, a killed and a cut-off shard."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import processes
from engine import ROOT, Engine, Word, check, note, say
from processes import Process

COMPOSE = ROOT / "deploy/compose/compose.yaml"
SHARDS = ("shard-0", "shard-1", "shard-2")
EXAMPLE = "/usr/share/dslide/examples/debian-packages"
DATA = (f"--data={EXAMPLE}/train.txt", f"--eval={EXAMPLE}/test.txt",
        f"--model={EXAMPLE}/model.json")
TRAINING_SECONDS = 3600
READY_SECONDS = processes.PATIENCE_SECONDS
# As between two trainings of one process with other numbers of shards or trainers.
PRECISION_TOLERANCE = 0.02
CUT_SECONDS = 5


class Project:
    """A compose project of its own name; `files` are its compose files."""

    def __init__(self, engine: Engine, name: str, files: Sequence[Word],
                 environment: dict[str, str]) -> None:
        self.engine = engine
        self.environment = environment
        self._arguments: list[Word] = ["compose", "-p", name]
        for file in files:
            self._arguments += ["-f", file]
        self.name = name

    def compose(self, *arguments: Word, within: float = READY_SECONDS,
                accept: Sequence[int] = (0,)) -> subprocess.CompletedProcess[str]:
        return self.engine.docker(*self._arguments, *arguments, within=within, accept=accept,
                                  environment=self.environment)

    def up(self) -> None:
        self.compose("up", "-d", "--wait", "--wait-timeout", str(READY_SECONDS),
                     within=READY_SECONDS + 60)

    def start(self, *arguments: Word) -> Process:
        """A command of compose that runs beside what follows."""
        return start(["docker", *self._arguments, *arguments],
                     self.engine.environment | self.environment)

    def container(self, service: str) -> str:
        return self.compose("ps", "-q", service).stdout.strip()

    def remove(self) -> None:
        # `down` leaves what `run` has started; a trainer may be in no hurry.
        left = self.engine.output("ps", "-aq", "--filter",
                                  f"label=com.docker.compose.project={self.name}", "--filter",
                                  "label=com.docker.compose.oneoff=True").split()
        if left:
            self.engine.docker("rm", "-f", "-v", *left, accept=tuple(range(256)))
        self.compose("--profile", "*", "down", "--volumes", "--timeout", "20",
                     accept=tuple(range(256)))


def start(command: Sequence[Word], environment: Mapping[str, str]) -> Process:
    """A command that runs beside what follows."""
    program, *arguments = command
    return Process(shutil.which(str(program)) or str(program), arguments,
                   pathlib.Path(tempfile.mkdtemp(prefix="dslide-compose-")), environment)


def result_of(running: Process) -> Any:
    """The JSON object that its stdout ends with."""
    finished = running.finish(TRAINING_SECONDS)
    check(finished.code == 0, str(finished))
    return finished.json()


def metric_sum(engine: Engine, containers: Sequence[str], port: int, name: str) -> float:
    """The sum of a metric over all its labels and over containers."""
    total = 0.0
    for container in containers:
        page = processes.fetch(f"{engine.address(container)}:{port}")
        values = processes.metric_values(page, name)
        check(values, f"{container} has no metric {name}")
        total += sum(values)
    return total


def train_embedded(engine: Engine, example: str, epochs: Sequence[str]) -> Any:
    say("Training in one process, to compare with")
    running = start(["docker", "run", "--rm", "--network", "none", "--read-only", "--tmpfs", "/tmp",
                     example, "train", "-q", "-o", "json", "--shards", len(SHARDS), *DATA, *epochs],
                    engine.environment)
    try:
        return result_of(running)
    finally:
        running.kill()


def disturb(project: Project, trainer: Process) -> dict[str, Any]:
    """Stops, kills and cuts off one shard after the other; what was done, with its seconds."""
    done: dict[str, Any] = {}

    def timed(name: str, action: Callable[[], None]) -> None:
        begun = time.monotonic()
        action()
        done[name] = round(time.monotonic() - begun, 1)
        note(f"{name}: {done[name]} s")

    def stop_and_start() -> None:
        project.compose("stop", "shard-1")
        check(project.engine.inspect(stopped)["State"]["ExitCode"] == 0,
              "shard-1 did not stop in good order:\n" + project.compose("logs", "shard-1").stdout)
        project.up()

    def kill_and_start() -> None:
        project.compose("kill", "-s", "SIGKILL", "shard-2")
        project.up()

    def cut_off() -> None:
        container, network = project.container("shard-0"), f"{project.name}_cluster"
        project.engine.docker("network", "disconnect", network, container)
        time.sleep(CUT_SECONDS)
        project.engine.docker("network", "connect", "--alias", "shard-0", network, container)

    stopped = project.container("shard-1")
    trainer.wait_for_stderr(r"epoch 1: P@1")
    timed("stop_start_seconds", stop_and_start)
    trainer.wait_for_stderr(r"epoch 2: P@1")
    timed("kill_start_seconds", kill_and_start)
    trainer.wait_for_stderr(r"epoch 3: P@1")
    timed("network_cut_seconds", cut_off)
    return done


def check_trained(project: Project) -> float:
    """After all containers were removed and made again, the cluster still has the model."""
    project.compose("down", within=READY_SECONDS)
    project.up()
    done = project.compose("run", "--rm", "-T", "trainer", "eval", "--data", f"{EXAMPLE}/test.txt",
                           "-q", "-o", "json", within=600)
    return float(json.loads(done.stdout.strip().splitlines()[-1])["p_at_1"])


def check_compose(engine: Engine, image: str, example: str,
                  epochs: Sequence[str]) -> dict[str, Any]:
    """Figures of one training on containers, disturbed, beside one in a process."""
    embedded = train_embedded(engine, example, epochs)
    note(f"P@1 {embedded['p_at_1']:.4f}, {embedded['steps']} steps")
    project = Project(engine, f"dslide-check-{os.getpid()}", [COMPOSE],
                      {"DSLIDE_IMAGE": image, "DSLIDE_EXAMPLE_IMAGE": example,
                       "DSLIDE_DURABILITY": "log"})
    say("Training on three shard containers that are stopped, killed and cut off")
    try:
        begun = time.monotonic()
        project.up()
        up_seconds = round(time.monotonic() - begun, 1)
        # The command of the file, and more.
        trainer = project.start("run", "--rm", "-T", "trainer", "train", *DATA, "-o", "json",
                                *epochs)
        try:
            found = disturb(project, trainer)
            trained = result_of(trainer)
        finally:
            trainer.kill()
        shards = [project.container(shard) for shard in SHARDS]
        lost = metric_sum(engine, shards, 7011, "dslide_shard_acked_loss_total")
        kept = check_trained(project)
    finally:
        project.remove()
    return judge(embedded, trained, lost, kept, found | {"up_seconds": up_seconds})


def judge(embedded: Any, trained: Any, lost: float, kept: float,
          found: dict[str, Any]) -> dict[str, Any]:
    found |= {"p_at_1": trained["p_at_1"], "embedded_p_at_1": embedded["p_at_1"],
              "p_at_1_after_restart": kept, "lost": int(lost), "steps": trained["steps"],
              "embedded_steps": embedded["steps"],
              "samples_per_second": trained["samples_per_second"],
              "embedded_samples_per_second": embedded["samples_per_second"]}
    note(f"P@1 {found['p_at_1']:.4f} (one process: {found['embedded_p_at_1']:.4f}), lost {lost:g}")
    check(lost == 0, f"{lost:g} confirmed updates were lost")
    check(trained["steps"] == embedded["steps"],
          f"{trained['steps']} steps instead of {embedded['steps']}")
    difference = abs(trained["p_at_1"] - embedded["p_at_1"])
    check(difference <= PRECISION_TOLERANCE, f"P@1 differs by {difference:.4f}")
    check(abs(kept - trained["p_at_1"]) < 1e-6,
          f"P@1 after a restart is {kept}, was {trained['p_at_1']}")
    return found
