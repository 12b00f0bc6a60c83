#!/usr/bin/env python3
"""Trainers in all languages share one job, over mutual TLS, while a shard is killed, and they are.

One after the other: a job of one trainer alone; one of a trainer in each language, none of which is
killed, so that the updates of every table must be the sum of the steps that they report; and one in
which each of them is killed in turn and started anew. All three must end equally accurate. Beside
the trainers a program of each language adds ones to rows of its own, killed with its trainer: every
confirmed update must be there once, and none that was not asked for. A shard is killed, too, and
comes back with its command log.

The interpreter is one that has the Python package of the client: ./run clients starts it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import dslide
import numpy as np
from counted_increments import ROWS_OF_UPDATE, Increments

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "common"))

import processes  # noqa: E402

SHARDS = 2
FEATURES, LABELS, POINTS, TEST_POINTS, EPOCHS, BATCH = 1000, 500, 6400, 1600, 5, 32
ACCURACY_GAP = 0.01
# Rows of one life of a program that adds ones; updates of it at most.
ROWS_OF_LIFE = 12_000
UPDATES_OF_LIFE = ROWS_OF_LIFE // ROWS_OF_UPDATE
UPDATES_BETWEEN_KILLS = 20
MODEL = {
    "activations": "bf16", "seed": 5,
    "tables": [
        {"name": "input", "role": "embedding", "dim": 32, "bias_row": True,
         "optimizer": {"learning_rate": 0.02}},
        {"name": "labels", "role": "head", "dim": 32, "optimizer": {"learning_rate": 0.02},
         "head": {"max_active": 200}},
    ],
    # Small leases: all trainers have a part of each epoch. No validation: the rows of the best
    # epoch would be restored, and with them their counts of updates.
    "training": {"batch_size": BATCH, "max_epochs": EPOCHS, "chunk_samples": 4 * BATCH,
                 "validation_fraction": 0, "patience_epochs": 0},
}
Program = dict[str, Any]


def points_text(seed: int, count: int) -> str:
    """Points that show three of four features of their label."""
    draw = random.Random(3)
    own = [draw.sample(range(FEATURES), 6) for _ in range(LABELS)]
    draw = random.Random(seed)
    lines = [f"{count} {FEATURES} {LABELS}"]
    for _ in range(count):
        label = draw.randrange(LABELS)
        shown = [feature for feature in own[label] if draw.random() < 0.75] or own[label]
        lines.append(" ".join([str(label), *(f"{feature}:1" for feature in sorted(shown))]))
    return "\n".join(lines) + "\n"


class Counter:
    """A life of a program that adds ones, as fast as it can."""

    def __init__(self, program: Program, address: str, tls: list[str], life: int) -> None:
        self.name = f"increments of {program['language']}, life {life}"
        self.first_row = ROWS_OF_LIFE * life
        self.confirmed = 0
        self.wrong: list[str] = []
        self._stopping = threading.Event()
        self._program = Increments(program["increments"], program["environment"], address,
                                   self.first_row, tls=tls)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set() and self.confirmed < UPDATES_OF_LIFE - 1:
            [said] = self._program.ask()
            if not said.endswith("\n"):  # killed, maybe within a line
                return
            if json.loads(said)["outcome"] != "applied":
                self.wrong.append(f"{self.name}: {said.strip()}")
                return
            self.confirmed += 1

    def kill(self) -> None:
        self._stopping.set()
        self._program.kill()
        self._thread.join()

    def end(self) -> None:
        self._stopping.set()
        self._thread.join()
        if ended := self._program.end():
            self.wrong.append(f"{self.name}: {ended}")

    def judge(self, cells: Any, killed: bool) -> None:
        """cells: f32 [ROWS_OF_LIFE], as they are when all has ended."""
        confirmed = ROWS_OF_UPDATE * self.confirmed
        open_until = confirmed + (ROWS_OF_UPDATE if killed else 0)
        missing = int((cells[:confirmed] == 0).sum())
        twice = int((cells > 1).sum())
        never_asked = int((cells[open_until:] != 0).sum())
        if missing or twice or never_asked or not np.isin(cells, (0, 1, 2)).all():
            self.wrong.append(f"{self.name}: of {self.confirmed} confirmed updates, {missing} "
                              f"cells are lost, {twice} were added to twice, {never_asked} by "
                              "nobody")


class Run:
    """A cluster, and what is wrong with it."""

    def __init__(self, programs: list[Program], bin_dir: pathlib.Path,
                 folder: pathlib.Path) -> None:
        processes.use_bin_dir(bin_dir)
        self.languages = {program["language"]: program for program in programs}
        self.wrong: list[str] = []
        self.result: dict[str, Any] = {}
        self._folder = folder
        self._started = processes.Programs(folder)
        assert self._started.run_dslide("certs", "dev", "--output", folder / "certs").code == 0
        self._data, self._spec = folder / "points.txt", folder / "model.json"
        self._test = folder / "test.txt"
        self._data.write_text(points_text(1, POINTS), encoding="ascii")
        self._test.write_text(points_text(2, TEST_POINTS), encoding="ascii")
        self._address = f"127.0.0.1:{processes.free_port()}"
        self._ports = [processes.free_port() for _ in range(SHARDS)]
        # No cluster checkpoints: one retires a trainer that is stopped within a step, whose head
        # has one update more than its embedding then.
        self._start("coordinator", "dslide-coordinator", "--listen", self._address, "--shards",
                    SHARDS, "--lease-timeout", "10s", "--checkpoint-interval", "off",
                    "--data-dir", folder / "coordinator")
        self._shards = [self._start_shard(shard) for shard in range(SHARDS)]
        self._lives = 0
        self._killed: list[Counter] = []
        self._ended: list[Counter] = []

    def _files(self, role: str) -> dict[str, str]:
        names = {"ca": "ca.crt", "cert": f"{role}.crt", "key": f"{role}.key"}
        return {kind: str(self._folder / "certs" / name) for kind, name in names.items()}

    def _start(self, role: str, program: str, *arguments: object) -> processes.Process:
        flags = [part for kind, path in self._files(role).items()
                 for part in (f"--tls-{kind}", path)]
        return self._started.start(program, *arguments, *flags, "--admin", "")

    def _start_shard(self, shard: int) -> processes.Process:
        return self._start("shard", "dslide-shard", "--coordinator", self._address, "--listen",
                           f"127.0.0.1:{self._ports[shard]}", "--shard-id", shard, "--threads", 1,
                           "--durability", "log", "--data-dir", self._folder / f"shard-{shard}")

    def close(self) -> None:
        self._started.kill()

    def connect(self) -> dslide.Client:
        files = self._files("operator")
        patience = float(processes.PATIENCE_SECONDS)
        return dslide.connect(self._address, tls=dslide.Tls(**files), timeout=patience,
                              patience=patience)

    # --- Trainers and counters -----------------------------------------------------------------

    def _train(self, language: str, job: str) -> processes.Process:
        program = self.languages[language]
        values = {"cluster": self._address, "data": str(self._data), "model": str(self._spec),
                  "job": job, **self._files("trainer")}
        path, *arguments = [part.format_map(values) if part.startswith("{") else part
                            for part in program["train"]]
        found = shutil.which(path)
        assert found, f"{path} not found"
        return self._started.start(found, *arguments, environment=program["environment"])

    def _train_all(self, client: dslide.Client, job: str) -> dict[str, processes.Process]:
        """A trainer in each language; all have begun, and go on from here.

        Some start a hundred times as fast as others, and would have the job done by then: each is
        stopped after its first step until the last one has done its own.
        """
        self._prepare(job)
        trainers: dict[str, processes.Process] = {}
        for language in self.languages:
            before = max(self._updates(client, job), default=0)
            trainers[language] = self._train(language, job)
            self._await_updates(client, job, before + 1, [trainers[language]])
            _signal(trainers[language], signal.SIGSTOP)
        for trainer in trainers.values():
            _signal(trainer, signal.SIGCONT)
        return trainers

    def _count(self, language: str) -> Counter:
        counter = Counter(self.languages[language], self._address,
                          list(self._files("trainer").values()), self._lives)
        self._lives += 1
        return counter

    def _prepare(self, job: str) -> None:
        self._spec.write_text(json.dumps({"name": job, **MODEL}), encoding="ascii")

    def _await_updates(self, client: dslide.Client, job: str, count: int,
                       trainers: Sequence[processes.Process] = ()) -> int:
        """Waits for so many updates of a model everywhere; how many there are."""
        def reached() -> int | None:
            least = min(self._updates(client, job), default=0)
            return least if least >= count else None

        return processes.wait_until(reached, lambda: f"{count} updates of {job}", alive=trainers)

    @staticmethod
    def _updates(client: dslide.Client, job: str) -> list[int]:
        """Of each table on each shard; none before there is the model."""
        with contextlib.suppress(dslide.NotFoundError):
            return [table.applied_steps for shard in client.model(job).describe()
                    for table in shard.tables]
        return []

    def _accuracy(self, client: dslide.Client, job: str) -> float:
        status = client.job_status(job)
        if not status.finished or status.cancelled:
            self.wrong.append(f"job {job} has not ended: {status}")
        files = self._files("reader")
        tls = [part for kind, path in files.items() for part in (f"--tls-{kind}", path)]
        measured = self._started.run_dslide("eval", "-q", "-o", "json", "--cluster", self._address,
                                            "--name", job, "--data", self._test, *tls)
        processes.assert_ended(measured, 0)
        return float(measured.json()["p_at_1"])

    @staticmethod
    def _steps(trainer: processes.Process) -> int:
        """What a trainer says in the end."""
        done = trainer.finish()
        processes.assert_ended(done, 0)
        return int(done.json()["steps"])

    # --- The three jobs ------------------------------------------------------------------------

    def alone(self, client: dslide.Client) -> None:
        self._prepare("alone")
        self._steps(self._train("C++", "alone"))
        self.result["alone"] = self._accuracy(client, "alone")

    def together(self, client: dslide.Client) -> None:
        """None is killed: their steps are counted exactly."""
        counters = [self._count(language) for language in self.languages]
        trainers = self._train_all(client, "together")
        self._shards[1].kill()
        self._shards[1] = self._start_shard(1)
        steps = {language: self._steps(trainer) for language, trainer in trainers.items()}
        for counter in counters:
            counter.end()
        self._ended += counters
        updates = self._updates(client, "together")
        if set(updates) != {sum(steps.values())}:
            self.wrong.append(f"together: {updates} updates of the tables on the shards, "
                              f"{sum(steps.values())} steps were done: {steps}")
        self.result |= {"together": self._accuracy(client, "together"), "steps": steps}

    def killed(self, client: dslide.Client) -> None:
        """Each is killed in turn, the others go on, and it is started anew."""
        counters = {language: self._count(language) for language in self.languages}
        trainers = self._train_all(client, "killed")
        updates = 0
        for language in self.languages:
            others = [other for name, other in trainers.items() if name != language]
            updates = self._await_updates(client, "killed", updates + UPDATES_BETWEEN_KILLS)
            trainers[language].kill()
            counters[language].kill()
            self._killed.append(counters[language])
            updates = self._await_updates(client, "killed", updates + UPDATES_BETWEEN_KILLS)
            if not all(other.running() for other in others):
                self.wrong.append(f"killed: others ended with the trainer of {language}, or the "
                                  "job was too short")
            trainers[language] = self._train(language, "killed")
            counters[language] = self._count(language)
        for trainer in trainers.values():
            self._steps(trainer)
        for counter in counters.values():
            counter.end()
        self._ended += counters.values()
        least = min(self._updates(client, "killed"))
        expected = EPOCHS * POINTS // BATCH  # leases have whole batches
        if least < expected:
            self.wrong.append(f"killed: {least} updates, of at least {expected} in all epochs")
        self.result["killed"] = self._accuracy(client, "killed")

    def judge(self, client: dslide.Client) -> None:
        for counter in self._ended + self._killed:
            rows = counter.first_row + np.arange(ROWS_OF_LIFE)
            cells = client.model("cells").gather("cells", rows)[:, 0]
            counter.judge(cells, counter in self._killed)
            self.wrong += counter.wrong
        self.result["increments"] = sum(one.confirmed for one in self._ended + self._killed)
        for job in ("together", "killed"):
            gap = self.result[job] - self.result["alone"]
            if abs(gap) > ACCURACY_GAP:
                self.wrong.append(f"{job}: P@1 {self.result[job]:.4f}, of one trainer alone "
                                  f"{self.result['alone']:.4f}")


def _signal(process: processes.Process, number: int) -> None:
    for pid in process.members():
        os.kill(pid, number)


@contextlib.contextmanager
def started(programs: list[Program], bin_dir: pathlib.Path) -> Iterator[Run]:
    with tempfile.TemporaryDirectory(prefix="dslide-one-job-") as folder:
        run = Run(programs, bin_dir, pathlib.Path(folder))
        try:
            yield run
        finally:
            run.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=pathlib.Path,
                        help='JSON: [{"language", "increments", "train", "environment"}, ...]')
    parser.add_argument("--bin-dir", type=pathlib.Path, required=True)
    options = parser.parse_args()
    begun = time.monotonic()
    programs = json.loads(options.programs.read_text(encoding="utf-8"))
    with started(programs, options.bin_dir.resolve()) as run, run.connect() as client:
        try:
            for job in (run.alone, run.together, run.killed, run.judge):
                job(client)
        except (AssertionError, dslide.DslideError) as error:  # nothing is to be judged then
            run.wrong.append(str(error))
        run.result["seconds"] = round(time.monotonic() - begun, 1)
        print(json.dumps({**run.result, "wrong": run.wrong}))
        sys.exit(bool(run.wrong))


if __name__ == "__main__":
    main()
