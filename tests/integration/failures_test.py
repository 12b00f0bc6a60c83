"""What goes wrong ends with the documented exit code and a message that helps.

Exit codes: docs/start/commands.md for `dslide`, docs/operate/errors.md for the servers.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import signal
import time
from collections.abc import Sequence
from typing import Any

import processes
from process_case import ProcessCase
from processes import Process, Server, assert_ended, metric, wait_until

OK, FAILURE, USAGE, CANNOT_LISTEN, UNREACHABLE, DATA_LOSS = range(6)
SERVER_DATA_DIR = 4
INTERRUPTED = 130

# What programs are given, in seconds, to reach somebody who is not there: waited for to its end,
# but long enough for what is there to answer on a busy machine.
TIMEOUT = 10


class FailureTest(ProcessCase):
    def set_up(self) -> None:
        super().set_up()
        self.data = self.directory / "data.txt"
        made = self.run_dslide("data", "gen", "--output", self.data, "--points", 2000,
                               "--features", 300, "--labels", 400)
        assert_ended(made, OK)

    def write(self, name: str, text: str) -> pathlib.Path:
        path = self.directory / name
        path.write_text(text, encoding="utf-8")
        return path

    def assert_refused(self, code: int, *patterns: str, command: Sequence[object]) -> None:
        """`dslide` fails so; and what failed leaves no result on stdout."""
        self.assert_all_refused(code, *patterns, commands=[command])

    def assert_all_refused(self, code: int, *patterns: str,
                           commands: Sequence[Sequence[object]]) -> None:
        """Beside each other: some of them wait for somebody who is not there."""
        for process in [self.start("dslide", *command) for command in commands]:
            finished = process.finish()
            assert_ended(finished, code, *patterns)
            assert finished.stdout == "", finished

    def start_parts(self, *coordinator_arguments: object,
                    shards: int = 2) -> tuple[Server, list[Server]]:
        """A coordinator and its shards as single processes."""
        coordinator = self.start_coordinator(*coordinator_arguments, shards=shards)
        return coordinator, [self.start_shard(coordinator) for _ in range(shards)]

    def start_training(self, *arguments: object, epochs: int = 100000) -> Process:
        """A trainer that has done steps and has, without the argument, no end."""
        trainer = self.start("dslide", "train", "--data", self.data, "--epochs", epochs,
                             "--validation-fraction", 0, "--admin", "127.0.0.1:0", *arguments)
        self.wait_for_steps(trainer, 6)
        return trainer

    def steps(self, trainer: Process) -> float:
        page = trainer.wait_for_stderr(r"http://(\S+)/metrics").group(1)
        return metric(page, "dslide_trainer_steps_total") or 0

    def wait_for_steps(self, trainer: Process, count: float) -> None:
        wait_until(lambda: self.steps(trainer) >= count, lambda: f"{count} steps", alive=[trainer])

    def wait_until_idle(self, trainer: Process) -> None:
        """Until no step was done for a second: the trainer waits for work."""
        last = {"steps": -1, "at": 0.0}

        def idle() -> bool:
            steps = self.steps(trainer)
            if steps != last["steps"]:
                last.update(steps=steps, at=time.monotonic())
            return time.monotonic() - last["at"] > 1

        wait_until(idle, lambda: "a second without a step", alive=[trainer])

    def train_model(self, *arguments: object) -> None:
        """A short training that ends well."""
        finished = self.run_dslide("train", "--data", self.data, "--steps", 20, *arguments)
        assert_ended(finished, OK)

    def precision(self, *arguments: object) -> float:
        finished = self.run_dslide("eval", "-o", "json", "--data", self.data, *arguments)
        assert_ended(finished, OK)
        assert "fresh rows" not in finished.stderr
        return float(finished.json()["p_at_1"])

    def assert_nothing_left(self, process: Process) -> None:
        assert process.members() == []


class IncompleteClusterTest(FailureTest):
    def commands(self, address: str) -> list[list[object]]:
        """Every command that needs a cluster."""
        where = ["--cluster", address, "--timeout", f"{TIMEOUT}s"]
        return [["train", "--data", self.data, *where], ["eval", "--data", self.data, *where],
                ["predict", "--data", self.data, *where]]

    def test_nobody_listens(self) -> None:
        address = f"127.0.0.1:{processes.free_port()}"
        status = ["status", "--cluster", address, "--timeout", f"{TIMEOUT}s"]
        self.assert_all_refused(
            UNREACHABLE, rf"coordinator at {address}, .*failed to connect",
            rf"; start the coordinator \(dslide up, or dslide-coordinator --listen {address}",
            commands=[*self.commands(address), status])

    def test_a_shard_was_not_started(self) -> None:
        coordinator = self.start_coordinator(shards=2)
        self.start_shard(coordinator)
        self.assert_all_refused(
            UNREACHABLE, rf"coordinator at {coordinator.address}, ",
            r"waiting for 1 of 2 shards to register \(missing: 1\): start each of them, "
            r"dslide-shard --coordinator .*\[NOT_ALL_SHARDS\]",
            commands=self.commands(coordinator.address))

    def test_a_shard_is_down_when_training_starts(self) -> None:
        coordinator, shards = self.start_parts()
        shards[1].process.kill()
        self.assert_refused(
            UNREACHABLE, rf"failed on 1 of 2 shards: shard 1 at {shards[1].address}: UNAVAILABLE",
            command=self.commands(coordinator.address)[0])

    def test_an_unknown_model(self) -> None:
        coordinator, _ = self.start_parts(shards=1)
        where = ["--cluster", coordinator.address, "--data", self.data]
        for command in ("eval", "predict"):
            self.assert_refused(USAGE, "the cluster has no model: train one first",
                                command=[command, *where])
        self.train_model("--cluster", coordinator.address, "--name", "known")
        for command in ("eval", "predict"):
            self.assert_refused(USAGE, r'the cluster has no model "other"; .*known',
                                command=[command, *where, "--name", "other"])


class LostProcessTest(FailureTest):
    def test_a_shard_that_is_killed_ends_the_training(self) -> None:
        coordinator, shards = self.start_parts()
        trainer = self.start_training("--cluster", coordinator.address,
                                      "--timeout", f"{TIMEOUT}s")
        shards[1].process.kill()
        finished = trainer.finish()
        assert_ended(
            finished,
            UNREACHABLE,
            rf"shard 1, .*no answer from shard 1 at {shards[1].address} "
            # Where a connection has failed meanwhile, the reason stands between.
            rf"within {TIMEOUT}s(: .*)?; see whether the shard runs .* start it again",
        )
        assert finished.stdout == "", finished

    def test_a_shard_that_comes_back_empty_ends_the_training(self) -> None:
        coordinator = self.start_coordinator(shards=2)
        self.start_shard(coordinator)
        address = ["--shard-id", 1, "--listen", f"127.0.0.1:{processes.free_port()}"]
        shard = self.start_shard(coordinator, *address)
        trainer = self.start_training("--cluster", coordinator.address)
        shard.process.kill()
        self.start_shard(coordinator, *address)
        assert_ended(
            trainer.finish(), DATA_LOSS,
            rf"shard 1 at {shard.address} .*has lost updates; restore a checkpoint and start the "
            r"training again \[LOST_UPDATES\]")

    def test_up_ends_when_one_of_its_shards_is_killed(self) -> None:
        cluster = self.start_cluster(shards=2)
        trainer = self.start_training("--cluster", cluster.address, "--timeout", f"{TIMEOUT}s")
        os.kill(cluster.shard_pid(1), signal.SIGKILL)
        finished = cluster.process.finish()
        assert_ended(finished, FAILURE, r"shard 1 was ended by signal 9; its log is \S+",
                     "stopping the rest")
        assert finished.stderr.count("was ended by signal") == 1, finished
        self.assert_nothing_left(cluster.process)
        # Now the coordinator and both shards are away.
        assert_ended(trainer.finish(),
                     UNREACHABLE, r"no answer from shard \d at \S+ within")

    def test_training_goes_on_with_a_coordinator_that_was_killed_and_comes_back(self) -> None:
        own = ["--listen", f"127.0.0.1:{processes.free_port()}",
               "--data-dir", self.directory / "catalog"]
        coordinator, _ = self.start_parts(*own)
        trainer = self.start_training("--cluster", coordinator.address, epochs=20)
        coordinator.process.kill()
        self.start_coordinator(*own, shards=2)
        finished = trainer.finish()
        assert_ended(finished, OK, "the coordinator is back")
        assert "forgotten" not in finished.stderr, finished
        # It has kept the job's end, too: nothing is trained again.
        joined = self.run_dslide("train", "--data", self.data, "--epochs", 20,
                                 "--validation-fraction", 0, "--cluster", coordinator.address,
                                 "-o", "json")
        assert_ended(joined, OK)
        assert joined.json()["steps"] == 0, joined

    def test_ctrl_c_ends_a_training_whose_coordinator_is_away(self) -> None:
        coordinator, _ = self.start_parts()
        trainer = self.start_training("--cluster", coordinator.address,
                                      "--timeout", f"{TIMEOUT}s")
        coordinator.process.kill()
        trainer.wait_for_stderr(
            rf"the coordinator is away, trying again: coordinator at {coordinator.address}")
        self.wait_until_idle(trainer)
        assert_ended(
            trainer.stop(signal.SIGINT),
            INTERRUPTED, "Interrupted: finishing with what was trained")


class TakenPortTest(FailureTest):
    def assert_cannot_listen(self, address: str, process: Process) -> None:
        assert_ended(process.finish(), CANNOT_LISTEN,
                     rf"cannot listen on {address}: another process listens there; stop it "
                     "or choose another address")

    def test_every_program_names_the_address_and_ends_with_the_same_code(self) -> None:
        port = self.enter(processes.taken_port())
        address = f"127.0.0.1:{port}"
        free = "127.0.0.1:0"
        commands: list[list[Any]] = [
            ["dslide-shard", "--listen", address], ["dslide-shard", "--admin", address],
            ["dslide-coordinator", "--listen", address, "--admin", free],
            ["dslide-coordinator", "--listen", free, "--admin", address],
            ["dslide", "up", "--listen", address, "--log-dir", self.directory / "logs"],
            ["dslide", "train", "--data", self.data, "--admin", address]]
        for program, *arguments in commands:
            self.assert_cannot_listen(address, self.start(program, *arguments))


class StopTest(FailureTest):
    def test_sigterm_and_sigint_stop_single_servers_in_good_order(self) -> None:
        for signal_number in (signal.SIGTERM, signal.SIGINT):
            coordinator, shards = self.start_parts()
            for server in [*shards, coordinator]:
                assert_ended(server.process.stop(signal_number), OK, "stopped")

    def test_up_keeps_the_rows_when_it_is_stopped(self) -> None:
        rows = ["--data-dir", self.directory / "rows"]
        cluster = self.start_cluster(*rows, shards=2)
        self.train_model("--cluster", cluster.address)
        before = self.precision("--cluster", cluster.address)
        assert_ended(cluster.process.stop(signal.SIGTERM), OK, "Stopping the cluster")
        self.assert_nothing_left(cluster.process)
        cluster = self.start_cluster(*rows, shards=2)
        assert self.precision("--cluster", cluster.address) == before
        assert_ended(cluster.process.stop(signal.SIGINT), OK)
        self.assert_nothing_left(cluster.process)

    def test_an_interrupted_training_keeps_its_model(self) -> None:
        model = ["--model-dir", self.directory / "model"]
        for signal_number, more in ((signal.SIGINT, []), (signal.SIGTERM, ["--resume"])):
            trainer = self.start_training(*model, *more)
            finished = trainer.stop(signal_number)
            assert_ended(finished, INTERRUPTED, "Interrupted: finishing", "Writing the model")
            assert re.search(r"Trained [1-9][\d,]* samples", finished.stdout)
            self.precision(*model)

    def test_an_interrupted_trainer_leaves_the_cluster_as_it_is(self) -> None:
        coordinator, _ = self.start_parts()
        trainer = self.start_training("--cluster", coordinator.address)
        assert_ended(trainer.stop(signal.SIGINT), INTERRUPTED)
        self.precision("--cluster", coordinator.address)


class DamageTest(FailureTest):
    def set_up(self) -> None:
        super().set_up()
        self.model = self.directory / "model"
        self.train_model("--model-dir", self.model, "--shards", 2)

    def damage(self, pattern: str, change: Any) -> Any:
        """The file, spoilt, of a copy of the model; `change` makes bytes of bytes."""
        model = self.directory / "damaged"
        shutil.rmtree(model, ignore_errors=True)
        shutil.copytree(self.model, model)
        path = max(model.glob(pattern), key=lambda file: file.stat().st_size)
        path.write_bytes(change(path.read_bytes()))
        return path

    def assert_every_program_refuses(self, pattern: str, change: Any) -> Any:
        spoilt = self.damage(pattern, change)
        model = self.directory / "damaged"
        named = rf"{model}/shard-1.*restore this directory from a copy"
        self.assert_refused(DATA_LOSS, named,
                            command=["eval", "--data", self.data, "--model-dir", model])
        self.assert_refused(DATA_LOSS, named, command=[
            "train", "-q", "--data", self.data, "--model-dir", model, "--resume"])
        shard = self.start("dslide-shard", "--data-dir", model / "shard-1")
        assert_ended(shard.finish(), SERVER_DATA_DIR, named)
        return spoilt

    def test_a_flipped_bit_in_the_rows(self) -> None:
        def flip(content: bytes) -> bytes:
            middle = len(content) // 2
            return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1:]

        self.assert_every_program_refuses("shard-1/images/*.latest/model-000/*.sst", flip)

    def test_a_damaged_catalog(self) -> None:
        path = self.damage("coordinator/catalog/CURRENT", lambda _: b"nothing\n")
        named = rf"{path.parent} is damaged.*restore it from a copy"
        # Whoever only reads a model needs no catalogue.
        self.precision("--model-dir", self.directory / "damaged")
        coordinator = self.start("dslide-coordinator", "--listen", "127.0.0.1:0", "--admin",
                                 "127.0.0.1:0", "--data-dir", path.parent.parent, "--shards", 2)
        assert_ended(coordinator.finish(), SERVER_DATA_DIR, named)


class MissingRowsTest(FailureTest):
    def set_up(self) -> None:
        super().set_up()
        self.model = self.directory / "model"

    def assert_every_command_refuses(self, *patterns: str) -> None:
        where = ["--data", self.data, "--model-dir", self.model]
        for command in (["eval"], ["predict"], ["train", "--resume", "--steps", 1]):
            self.assert_refused(
                DATA_LOSS, *patterns,
                rf"train again: dslide train --data FILE --model-dir {self.model} --overwrite",
                command=[*command, *where])

    def assert_overwriting_heals(self) -> None:
        self.train_model("--model-dir", self.model, "--overwrite")
        self.precision("--model-dir", self.model)
        self.train_model("--model-dir", self.model, "--resume")

    def test_the_directory_of_a_shard_was_removed(self) -> None:
        self.train_model("--model-dir", self.model, "--shards", 2)
        shutil.rmtree(self.model / "shard-1")
        self.assert_every_command_refuses(
            rf"the rows of 1 of 2 shards are missing: {self.model}/shard-1 must hold "
            r"images/\S+\.latest; restore that from a copy")
        # Nobody made fresh rows in its place.
        assert not (self.model / "shard-1").exists()
        self.assert_overwriting_heals()

    def test_the_training_was_killed_before_it_wrote(self) -> None:
        trainer = self.start_training("--model-dir", self.model)
        trainer.kill()
        self.assert_refused(USAGE, rf"--model-dir {self.model}: holds no model yet: .*was killed",
                            command=["eval", "--data", self.data, "--model-dir", self.model])
        self.train_model("--model-dir", self.model)
        self.precision("--model-dir", self.model)

    def test_resuming_with_another_number_of_shards_changes_nothing(self) -> None:
        model = ["--model-dir", self.model]
        self.train_model(*model, "--shards", 2)
        # It has as many as before where nobody says how many.
        self.train_model(*model, "--resume")
        before = self.precision(*model)
        self.assert_refused(USAGE, "are those of 2 shards, not of 3: give --shards 2",
                            command=["train", "--data", self.data, *model, "--resume",
                                     "--shards", 3])
        assert self.precision(*model) == before
