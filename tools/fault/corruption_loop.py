"""Damages what the programs keep on disk, again and again, and asks the programs to read it.

Each round damages a fresh copy once (corrupter.py, seed and number of the round) and looks at what
the real program makes of it. Good outcomes: `refused`, with a message and the documented exit code
or status; `equal`, what is served is what was written, by digest and by bytes. Bad ones: `silent`,
something else is served as if nothing were wrong; `crashed`, `hung`, and `mute`, a refusal without
a message. Ways:

    start    dslide-shard on a damaged data directory of a model that `dslide train` wrote
    load     LoadCheckpoint of a damaged checkpoint in a shard that serves other rows, which must
             stay as they are when the checkpoint is refused
    catalog  dslide-coordinator on a damaged catalogue
    model    `dslide predict` from a model directory whose own files (not the rows) are damaged
"""

from __future__ import annotations

import collections
import contextlib
import hashlib
import pathlib
import random
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import grpc_client
import processes
import shard_client
from corrupter import KINDS, Record, corrupt
from grpc_client import Connection
from processes import Finished, Process

GOOD = ("refused", "equal")
BAD = ("silent", "crashed", "hung", "mute")
SHARDS = 2
SERVER_DATA_DIR, DATA_LOSS_EXIT = 4, 5
# Half of the rounds damage what the data is in, the rest any file.
LOADED_KINDS = ("sst", "manifest", "current")
MODEL_NAME = "model"
SHARD_COMMAND = ("dslide-shard", "--coordinator", "", "--admin", "")


Fingerprint = dict[str, tuple[shard_client.TableState, str]]
Judgement = tuple[str, str]  # (outcome, remark)
Damage = Callable[[pathlib.Path], Record]


def shard_fingerprint(connection: Connection, shard: int, num_shards: int) -> Fingerprint:
    """All that clients can see of the model's rows on a shard, and the digests of the rest."""
    states = shard_client.describe_model(connection, MODEL_NAME)
    found = {}
    for name, state in sorted(states.items()):
        rows = shard_client.rows_of_shard(state.spec, shard, num_shards)
        weights, biases = shard_client.gather_bytes(connection, MODEL_NAME, name, rows)
        if len(weights) != len(rows) * state.spec.dim * 4:
            raise AssertionError(f"{len(weights)} bytes for {len(rows)} rows of {state.spec.dim}")
        found[name] = (state, hashlib.sha256(weights + biases).hexdigest())
    return found


def checkpoint_path(data_dir: pathlib.Path, name: str) -> pathlib.Path:
    """Where a shard keeps a checkpoint of the model."""
    return data_dir / "images" / f"{MODEL_NAME}.{name}"


class Subject(processes.Programs):
    """A model directory of `dslide train`, and an older state of it.

    The older files are whole, but wrong in the place of the newer ones.
    """

    def __init__(self, directory: pathlib.Path) -> None:
        super().__init__(directory)
        self.model = directory / "model"
        self.older = directory / "older"
        self.data = directory / "data.txt"
        self._make("data", "gen", "--output", self.data, "--points", 2000, "--features", 300,
                   "--labels", 400)
        train = ["train", "-q", "--data", self.data, "--steps", 10, "--shards", SHARDS,
                 "--model-dir", self.model]
        self._make(*train)
        shutil.copytree(self.model, self.older)
        self._make(*train, "--resume")
        for shard in range(SHARDS):
            # Nothing reads it here: damage to it would only make the numbers look better.
            for kept in (self.model, self.older):
                shutil.rmtree(checkpoint_path(kept / f"shard-{shard}", "best"), ignore_errors=True)

    def _make(self, *command: object) -> None:
        finished = self.ended("dslide", *command)
        if finished.code != 0:
            raise RuntimeError(f"the model to damage could not be made: {finished}")

    def ended(self, program: str, *arguments: object) -> Finished:
        """Runs a program to its end, after which nothing is left of it but its output."""
        process = self.start(program, *arguments)
        try:
            return process.finish()
        finally:
            process.kill()

    @contextlib.contextmanager
    def copy(self, source: pathlib.Path) -> Iterator[pathlib.Path]:
        """A copy to damage."""
        target = self.directory / "damaged"
        shutil.copytree(source, target)
        try:
            yield target
        finally:
            shutil.rmtree(target)


def served_address(process: Process) -> str | None:
    """The address of a server once it serves; None when it has ended instead."""

    def decided() -> str | None:
        # In this order: the last words of one that ends meanwhile are seen.
        running = process.running()
        match = re.search(r" (?:serving|coordinator ready) address=(\S+)", process.stderr)
        if match:
            return match.group(1)
        return None if running else "ended"

    address = processes.wait_until(decided, lambda: f"a start or an end of {process}")
    return None if address == "ended" else address


def refusal(finished: Finished, expected_code: int) -> Judgement:
    """(outcome, remark) of a program that did not start."""
    message = finished.stderr.strip().splitlines()[-1:] or [""]
    if finished.code < 0:
        return "crashed", str(finished)
    if finished.code != expected_code:
        return "crashed", f"exit code {finished.code} instead of {expected_code}: {message[0]}"
    return ("refused" if len(message[0]) > 20 else "mute"), message[0]


def compared(found: object, expected: object) -> Judgement:
    if found == expected:
        return "equal", ""
    return "silent", f"served {found} instead of {expected}"


class ServerWay:
    """Starts a program on a damaged directory, and looks at what it serves then."""

    def __init__(self, subject: Subject, source: pathlib.Path, older: pathlib.Path,
                 command: tuple[object, ...], fingerprint: Callable[[Connection], Any]) -> None:
        self._subject, self._source, self.older = subject, source, older
        self._command, self._fingerprint = command, fingerprint
        with subject.copy(self._source) as directory:
            self._expected, remark = self._serve(directory)
        if self._expected is None:
            raise RuntimeError(f"the undamaged {self._source} is not served: {remark}")

    def round(self, damage: Damage) -> tuple[Record, Judgement]:
        with self._subject.copy(self._source) as directory:
            record = damage(directory)
            try:
                found, ended = self._serve(directory)
            except AssertionError as error:
                return record, ("hung", str(error))
            if found is None:
                return record, ended
            return record, compared(found, self._expected)

    def _serve(self, directory: pathlib.Path) -> tuple[Any, Judgement]:
        """(fingerprint, _), or (None, (outcome, remark)) when it refused."""
        program, *flags = self._command
        process = self._subject.start(str(program), *flags, "--data-dir", directory)
        try:
            address = served_address(process)
            if address is None:
                finished = process.finish()
                return None, refusal(finished, SERVER_DATA_DIR)
            try:
                with grpc_client.Connection(address) as connection:
                    return self._fingerprint(connection), ("", "")
            except grpc_client.CallFailed as error:
                # It serves, and what was written is not there.
                return f"{error}", ("", "")
            except grpc_client.ConnectionLost as error:
                return None, ("crashed" if not process.running() else "hung", str(error))
        finally:
            process.kill()


def start_way(subject: Subject, _: object) -> ServerWay:
    return ServerWay(subject, subject.model / "shard-1", subject.older / "shard-1", SHARD_COMMAND,
                     lambda connection: shard_fingerprint(connection, 1, SHARDS))


def catalog_way(subject: Subject, _: object) -> ServerWay:
    # The older state as its first coordinator left it: each of its records is a file of its own.
    return ServerWay(
        subject, subject.older / "coordinator", subject.model / "coordinator",
        ("dslide-coordinator", "--listen", "127.0.0.1:0", "--admin", "", "--shards", SHARDS),
        shard_client.catalog)


class LoadWay:
    """Loads damaged checkpoints into a shard that serves other rows."""

    def __init__(self, subject: Subject, stack: contextlib.ExitStack) -> None:
        self._subject = subject
        self._stack = stack
        self._data_dir = pathlib.Path(tempfile.mkdtemp(dir=subject.directory)) / "data"
        shutil.copytree(subject.model / "shard-0", self._data_dir)
        self._source = self._data_dir.with_name("source")
        self.older = checkpoint_path(subject.older / "shard-0", "latest")
        self._start()
        self._written = shard_fingerprint(self._connection, 0, SHARDS)
        shutil.copytree(self._checkpoint("latest"), self._source)
        self._make_other_rows()

    def _checkpoint(self, name: str) -> pathlib.Path:
        return checkpoint_path(self._data_dir, name)

    def _start(self) -> None:
        program, *flags = SHARD_COMMAND
        self._process = self._subject.start(program, *flags, "--data-dir", self._data_dir)
        address = served_address(self._process)
        if address is None:
            raise RuntimeError(f"the undamaged shard does not start: {self._process}")
        self._connection = self._stack.enter_context(grpc_client.Connection(address))

    def _make_other_rows(self) -> None:
        """State `b`, kept as a checkpoint that a damaged one must not change."""
        name, (state, _) = sorted(self._written.items())[0]
        rows = shard_client.rows_of_shard(state.spec, 0, SHARDS)
        client = random.Random(0).randbytes(16)
        shard_client.hello(self._connection, "corruption", client, 0)
        envelope = shard_client.envelope_of("corruption", client, 1, 1, 0, MODEL_NAME)
        shard_client.scatter_add(self._connection, envelope, state.spec,
                                 {row: [1.0] * state.spec.dim for row in rows})
        shard_client.write_checkpoint(self._connection, MODEL_NAME, "b")
        self._present = shard_fingerprint(self._connection, 0, SHARDS)
        if self._present == self._written:
            raise RuntimeError("the other rows are the same rows")

    def round(self, damage: Damage) -> tuple[Record, Judgement]:
        with self._subject.copy(self._source) as directory:
            record = damage(directory)
            target = self._checkpoint("victim")
            shutil.copytree(directory, target)
        try:
            return record, self._load()
        except grpc_client.ConnectionLost as error:
            outcome = "hung" if self._process.running() else "crashed"
            remark = f"{error}: {self._process}"
            self._process.kill()
            self._start()
            self._restore()
            return record, (outcome, remark)
        finally:
            shutil.rmtree(target, ignore_errors=True)

    def _restore(self) -> None:
        shard_client.load_checkpoint(self._connection, MODEL_NAME, "b")

    def _load(self) -> Judgement:
        try:
            shard_client.load_checkpoint(self._connection, MODEL_NAME, "victim")
        except grpc_client.CallFailed as error:
            if shard_fingerprint(self._connection, 0, SHARDS) != self._present:
                return "silent", f"refused ({error}), but the rows have changed"
            return ("refused" if len(error.text) > 20 else "mute"), str(error)
        result = compared(shard_fingerprint(self._connection, 0, SHARDS), self._written)
        self._restore()
        return result


class ModelWay:
    """Predicts from a model directory whose own files are damaged."""

    older = None  # its files are those of the newer state

    def __init__(self, subject: Subject, _: object) -> None:
        self._subject = subject
        self._source = pathlib.Path(tempfile.mkdtemp(dir=subject.directory))
        # A few points: every round predicts them all.
        self._points = subject.directory / "points.txt"
        lines = subject.data.read_text(encoding="ascii").splitlines()[:41]
        self._points.write_text("\n".join([lines[0].replace("2000", "40", 1), *lines[1:]]) + "\n",
                                encoding="ascii")
        for path in subject.model.iterdir():
            if path.is_file():
                shutil.copy2(path, self._source)
        with subject.copy(self._source) as directory:
            finished = self._predict(directory)
        if finished.code != 0 or not finished.stdout:
            raise RuntimeError(f"the undamaged model does not predict: {finished}")
        self._expected = finished.stdout

    def _predict(self, directory: pathlib.Path) -> Finished:
        for path in filter(pathlib.Path.is_dir, self._subject.model.iterdir()):
            shutil.copytree(path, directory / path.name)
        return self._subject.ended("dslide", "predict", "-o", "json", "--data", self._points,
                                   "--model-dir", directory)

    def round(self, damage: Damage) -> tuple[Record, Judgement]:
        with self._subject.copy(self._source) as directory:
            record = damage(directory)
            try:
                finished = self._predict(directory)
            except AssertionError as error:
                return record, ("hung", str(error))
            if finished.code != 0:
                # What is wrong with a text file may be a matter of usage (2) or of data (5).
                code = finished.code if finished.code in (2, DATA_LOSS_EXIT) else DATA_LOSS_EXIT
                return record, refusal(finished, code)
            if finished.stdout == self._expected:
                return record, ("equal", "")
            return record, ("silent", "other predictions than those of the undamaged model")


Way = ServerWay | LoadWay | ModelWay
WAYS: dict[str, Callable[[Subject, contextlib.ExitStack], Way]] = {
    "start": start_way, "load": LoadWay, "catalog": catalog_way, "model": ModelWay}


def damage_of(seed: int, way: str, number: int, older: pathlib.Path | None) -> Damage:
    """damage(directory) -> record of one round; its choices are a function of the arguments."""
    choice = random.Random(f"{seed}/{way}/{number}")
    loaded_only = way in ("start", "load") and choice.random() < 0.5
    elsewhere = older if choice.random() < 0.5 else None

    def damage(directory: pathlib.Path) -> Record:
        return corrupt(directory, f"{seed}/{way}/{number}", KINDS,
                       LOADED_KINDS if loaded_only else None, elsewhere
                       ) | {"way": way, "round": number}

    return damage


class Tally:
    """Outcomes, counted by way, kind of file and kind of damage."""

    def __init__(self) -> None:
        self.cells: collections.Counter[tuple[str, str, str, str]] = collections.Counter()
        self.bad: list[Record] = []

    def add(self, record: Record, outcome: str, remark: str) -> None:
        record = record | {"outcome": outcome, "remark": remark}
        self.cells[record["way"], record["file_kind"], record["kind"], outcome] += 1
        if outcome in BAD:
            self.bad.append(record)

    def total(self, *outcomes: str) -> int:
        return sum(count for cell, count in self.cells.items()
                   if not outcomes or cell[3] in outcomes)

    def ways(self) -> dict[str, dict[str, int]]:
        """{way: {outcome: how often}}."""
        found: dict[str, dict[str, int]] = {}
        for (way, _, _, outcome), count in self.cells.items():
            of_way = found.setdefault(way, {})
            of_way[outcome] = of_way.get(outcome, 0) + count
        return found

    def table(self) -> Iterator[str]:
        """Lines for people: what became of each kind of damage to each kind of file."""
        rows: dict[tuple[str, str, str], collections.Counter[str]] = collections.defaultdict(
            collections.Counter)
        for (way, file_kind, kind, outcome), count in self.cells.items():
            rows[way, file_kind, kind][outcome] += count
        for (way, file_kind, kind), outcomes in sorted(rows.items()):
            listed = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
            yield f"{way:8} {file_kind:9} {kind:10} {listed}"


def run(seed: int, counts: Mapping[str, Any],
        say: Callable[[str], None] = lambda line: None) -> Any:
    """The Tally of `counts`: {way: number of rounds, or a list of round numbers}."""
    tally = Tally()
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="dslide-corruption-"))
        subject = stack.enter_context(Subject(pathlib.Path(directory)))
        for name, rounds in counts.items():
            way = WAYS[name](subject, stack)
            for number in range(rounds) if isinstance(rounds, int) else rounds:
                record, (outcome, remark) = way.round(damage_of(seed, name, number, way.older))
                tally.add(record, outcome, remark)
                say(f"{name}: {outcome}: {record['kind']} of {record['file']} (round {number})")
    return tally
