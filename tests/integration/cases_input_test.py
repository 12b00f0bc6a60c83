"""Inputs and situations on which programs of this kind go wrong, each with what is right instead.

Most come from reports of users of other systems. A row is one run: what is given, how it ends, and
what it must have said.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
import shlex
from collections.abc import Mapping, Sequence

import processes
import pytest
from process_case import ProcessCase
from processes import Finished, assert_ended

OK, FAILURE, USAGE, _, UNREACHABLE = range(5)

OK_DATA = "4 6 5\n0,1 0:1 3:0.5\n2 1:2 4:1\n3,4 2:1 5:0.25\n1 0:0.5 5:1\n"
FILES = {
    "ok.txt": OK_DATA,
    "names/train.txt": OK_DATA,
    "names/labels.txt": "a\nb\nc\nd\n",
    "blank/train.txt": OK_DATA,
    "blank/labels.txt": "\nb\nc\nd\ne\n",
    "a b/tr ain.txt": OK_DATA,
    "a b/features.txt": "web\nserver\nmail\nfont\ngame\nlib\n",
    "none.txt": "3 4 3\n 0:1\n 1:1\n 2:1\n",
    "rows.json": '{"name": "a", "tables": [{"name": "input", "role": "embedding", "dim": 8,'
                 ' "rows": 5}, {"name": "labels", "role": "head", "dim": 8}]}',
    "huge.txt": "1 2000000000 10\n0 5:1\n",
    "hugel.txt": "1 10 2000000000\n0 5:1\n",
    "half.txt": "10 2 2\n" + "0 0:1\n" * 4 + " 1:1\n" * 6,
    # Points of 500 features, some of which 250 times as many.
    "long.txt": "40 200000 3\n" + "".join(
        "0 " + " ".join(f"{feature}:1" for feature in range(125000 if point % 20 else 500)) + "\n"
        for point in range(40)),
}


@dataclasses.dataclass(frozen=True)
class Case:
    """One run and its end. Words of `stdout` and `stderr` are regular expressions."""

    arguments: Sequence[str]
    code: int
    stderr: Sequence[str] = ()
    stdout: Sequence[str] = ()
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    program: str = "dslide"
    limits: str = ""  # of a shell, before it becomes the program

    def __str__(self) -> str:
        return " ".join([*self.environment, self.program, *self.arguments, self.limits])[:90]


def train(*arguments: str, data: str = "ok.txt") -> list[str]:
    steps = [] if "--epochs" in arguments else ["--steps", "2"]
    return ["train", "-q", "--data", data, *steps, "-o", "json", *arguments]


GEN = ["data", "gen", "--points", "30", "--features", "500", "--labels", "50"]
NUMBERS = [
    Case(train("--epochs", "010", "--patience", "0"), OK, stdout=['"epochs":10']),
    Case(train("--seed", "010"), OK, stdout=['"seed":10\\b']),
    Case(train(), OK, stdout=['"seed":10\\b'], environment={"DSLIDE_SEED": "010"}),
    Case(["plan", "--rows", "0100", "--features", "10", "-o", "json"], OK,
         stdout=['"labels","rows":100\\b']),
    Case(train("--epochs", "08"), OK),
    Case(train("--epochs", "0x10"), USAGE, ['--epochs: "0x10" is not a whole number']),
    Case(train("--epochs", "3.5"), USAGE, ['--epochs: "3.5" is not a whole number']),
    Case(train("--seed", "-1"), USAGE, ["--seed: must be at least 0, not -1"]),
    Case(train("--epochs", "99999999999999999999"), USAGE, ["--epochs: must be at most .*, not 9"]),
    Case(train("--threads", "-2"), USAGE, [r"--threads: must be in \[0, 1024\], not -2"]),
    Case(train(), USAGE, ["--threads: .*not 5000.*from DSLIDE_THREADS"],
         environment={"DSLIDE_THREADS": "5000"}),
    Case(train("--learning-rate", "nan"), USAGE, ['--learning-rate: "nan" is not a number']),
    Case(train("--learning-rate", "1e999"), USAGE, ["--learning-rate: .*too large"]),
    Case(["checkpoint", "show", "-1"], USAGE, ["CHECKPOINT: must be .*, not -1\n"]),
    Case(["checkpoint", "prune", "--keep", "0"], USAGE, ["--keep: must be .*, not 0\n"]),
    Case(["--shards", "0"], USAGE, [r"--shards: 0 is outside \[1, "], program="dslide-coordinator"),
]
VARIABLES = [
    Case(GEN, USAGE, ["--output is required"], environment={"DSLIDE_OUTPUT": "json"}),
    Case([*GEN, "--output", "made.txt"], OK, stdout=['"path":"made.txt"'],
         environment={"DSLIDE_OUTPUT": "json"}),
    Case(["certs", "dev"], USAGE, ["--output is required"], environment={"DSLIDE_OUTPUT": "json"}),
    Case(train(), OK, stdout=['"steps":2'], environment={"DSLIDE_EPOCHS": "", "TMPDIR": ""}),
    Case(train(), USAGE, ['--insecure: "perhaps" is neither true nor .*DSLIDE_INSECURE'],
         environment={"DSLIDE_INSECURE": "perhaps"}),
    Case(["--check-config"], OK, program="dslide-shard", environment={
        "DSLIDE_MEMORY_BUDGET": "", "DSLIDE_THREADS": "", "DSLIDE_LISTEN": " 127.0.0.1:0 "}),
    Case(["--check-config"], OK, program="dslide-coordinator", environment={
        "DSLIDE_SHARDS": "", "DSLIDE_DRAIN_TIMEOUT": "", "DSLIDE_TLS_CERT": ""}),
    *(Case(["--check-config", "--listen", "0.0.0.0:7000"], USAGE,
           [r"refusing to serve plaintext on 0\.0\.0\.0:7000.*--insecure"], program=program)
      for program in ("dslide-shard", "dslide-coordinator")),
    Case(["--check-config", "--listen", "127.0.0 .1:0"], USAGE, ["127.0.0 .1.* is no host"],
         program="dslide-shard"),
]
DATA = [
    Case(train(data="absent"), USAGE, ["cannot open absent: No such file"]),
    Case(train("--model", "absent"), USAGE, ["--model absent: cannot be read"]),
    Case(["eval", "--data", "ok.txt", "--model-dir", "absent"], USAGE,
         ["--model-dir absent: holds no model; make one with"]),
    Case(train("--model", "rows.json"), USAGE,
         ['table "input" of the model has 5 rows, .* has 6 features.*; set "rows" to 0']),
    Case(["data", "info", "huge.txt"], USAGE, ["huge.txt:1: 2000000000 features .* MiB"]),
    Case(["data", "info", "hugel.txt"], USAGE, ["hugel.txt:1: .* 2000000000 labels: .* MiB"]),
    Case(train(data="huge.txt"), USAGE, ["huge.txt:1: 2000000000 features"]),
    Case(["plan", "--rows", "-5", "--features", "10"], USAGE, ["-5"]),
    Case(train(data="none.txt"), USAGE, ["none.txt: no point has a label"]),
    Case(train("--eval", "none.txt", data="ok.txt"), USAGE, ["none.txt"]),
    Case(["tune", "--data", "none.txt", "--trials", "2"], USAGE, ["none.txt: no point has a la"]),
    Case(["data", "info", "half.txt"], OK, stdout=[r"P@1 1\.0000"]),
    Case(["train", "-q", "--data", "half.txt", "--eval", "half.txt", "--steps", "40",
          "--batch-size", "4"], OK,
         stdout=[r"this model +1\.0000", r"most frequent labels +1\.0000"]),
    Case(train(data="names/train.txt"), OK, ["names/labels.txt has 4 lines, not 5"]),
    Case(["data", "info", "names/train.txt"], OK, ["names/labels.txt has 4 lines, not 5"]),
    Case(train("--batch-size", "40", data="long.txt"), USAGE,
         [r"message of .* MB, and 4 MiB are the most: give --batch-size \d"]),
    Case(["train", "--data", "long.txt", "--steps", "3"], OK, [r"Steps have \d+ points"]),
    Case(["plan", "--rows", "1000", "--features", "50000", "--batch", "8192",
          "--features-per-sample", "300", "--shards", "2"], OK,
         stdout=[r"CANNOT be sent: one of its messages has 7\.\d MB.*--batch-size \d{4} "]),
    Case(train("--learning-rate", "1e6"), USAGE, ["lower the learning rate.*OVER_MAGNITUDE"]),
    Case(train("--learning-rate", "1e30", "--optimizer", "sgd"), USAGE, ["OVER_MAGNITUDE"]),
]
HOSTS = [
    *(Case(["certs", "dev", "--output", "certs", "--host", host], USAGE, [f'--host: .*{why}'])
      for host, why in (("10.0.0.300", "looks like an IPv4 address"), ("a..b", "is empty"),
                        ("a" * 70 + ".example", "63"), ("1::2::3", "looks like an IPv6 address"),
                        ("two words", "letters, digits"))),
    Case(["certs", "dev", "--output", "certs", "--host", "*.example", "--host", "fe80::1"], OK),
    Case(["status", "--insecure", "--cluster", "10.0.0.300:7000"], USAGE, ["looks like an IPv4"]),
    Case(["status", "--insecure", "--cluster", "192.0.2.1:7000", "--timeout", "2s"], UNREACHABLE,
         ["http_proxy: add the host to no_"], environment={"http_proxy": "http://127.0.0.1:9"}),
]
LIMITS = [
    Case(train(), FAILURE, ["cannot start a thread|out of memory|Thread creation failed"],
         limits="ulimit -c 0; ulimit -v 400000"),
    Case(["--listen", "127.0.0.1:0", "--coordinator", ""], FAILURE,
         ["cannot start a thread|[Oo]ut of memory|Thread creation failed"],
         program="dslide-shard", limits="ulimit -c 0; ulimit -v 150000"),
    Case(["plan", "--rows", "1000", "--features", "1000", "--batch", "65536",
          "--features-per-sample", "30000"], FAILURE, ["out of memory"],
         limits="ulimit -c 0; ulimit -v 3000000"),
]


class InputTest(ProcessCase):
    def run(self, case: Case) -> Finished:
        for name in FILES:
            folder = pathlib.PurePath(name).parent.as_posix()
            if name in case.arguments or any(a.startswith(f"{folder}/") for a in case.arguments):
                path = self.directory / name
                path.parent.mkdir(exist_ok=True)
                path.write_text(FILES[name])
        become = f'cd "{self.directory}"; {case.limits or ":"}; exec "$0" "$@"'
        return self.programs.start(case.program, *case.arguments, wrapper=["bash", "-c", become],
                                   environment=case.environment).finish()

    @pytest.mark.parametrize("case", [*NUMBERS, *VARIABLES, *DATA, *HOSTS, *LIMITS], ids=str)
    def test_ends_as_it_should(self, case: Case) -> None:
        finished = self.run(case)
        assert_ended(finished, case.code, *case.stderr)
        for pattern in case.stdout:
            assert re.search(pattern, finished.stdout), f"{pattern!r} is not in {finished}"
        # One line, and no trace of what the program is made of.
        assert "terminate called" not in finished.stderr, finished
        assert case.code == OK or len(max(finished.stderr.splitlines(), key=len)) < 600, finished

    def test_a_host_that_does_not_exist_is_given_up_early(self) -> None:
        asked = self.run(Case(["status", "--insecure", "--cluster", "no-such-host.invalid:7000",
                               "--timeout", "90s"], USAGE))
        # Where no name server can be asked nobody knows that there is no such host.
        assert_ended(asked, UNREACHABLE if "looked up" in asked.stderr else USAGE,
                     'the host "no-such-host.invalid"')

    def test_an_unnamed_label_leaves_the_others_their_names(self) -> None:
        assert_ended(self.run(Case(train("--model-dir", "m", data="blank/train.txt"), OK)), OK)
        predicted = self.run(Case(["predict", "--model-dir", "m", "--data", "blank/train.txt",
                                   "-k", "5"], OK))
        first = predicted.stdout.split("point 1")[0]
        assert {*re.findall(r"\. (.*) \(", first)} == {"label 0", "b", "c", "d", "e"}, predicted

    def test_next_commands_can_be_pasted(self) -> None:
        arguments = ["train", "-q", "--data", "a b/tr ain.txt", "--epochs", "1", "--model-dir",
                     "it's mine"]
        told = self.run(Case(arguments, OK)).stdout
        match = re.search(r"^  dslide (predict .*)$", told, re.MULTILINE)
        assert match is not None, told
        words = shlex.split(match[1])
        assert words[:4] == ["predict", "--model-dir", "it's mine", "--text"], told
        assert_ended(self.run(Case(words, OK)), OK)
        assert "--data 'a b/tr ain.txt' --cluster" in told

    def test_a_variable_belongs_to_one_flag(self) -> None:
        page = (pathlib.Path(__file__).resolve().parents[2] / "docs/start/cli.md").read_text()
        flags: dict[str, set[str]] = {}
        for flag, variable in re.findall(r"^  (-\S+).*\(Env:(\w+)\)", page, re.MULTILINE):
            flags.setdefault(variable, set()).add(flag.split(",")[-1])
        assert flags["DSLIDE_OUTPUT"] == {"--output"}
        assert {variable: names for variable, names in flags.items() if len(names) > 1} == {}


class ClusterInputTest(ProcessCase):
    """What is given to a cluster that runs elsewhere."""

    def set_up(self) -> None:
        super().set_up()
        (self.directory / "small.txt").write_text("1 10 10\n0 5:1\n")
        self.data = self.directory / "g.txt"
        assert_ended(self.run_dslide("data", "gen", "--output", self.data, "--points", 2000,
                                     "--features", 500, "--labels", 300), OK)

    def test_refuses_other_data_and_other_models(self) -> None:
        # A proxy that nobody runs: loopback is never reached through one.
        proxy = {"http_proxy": "http://127.0.0.1:9"}
        cluster = processes.Cluster(self.start(
            "dslide", "up", "-o", "json", "--listen", f"127.0.0.1:{processes.free_port()}",
            "--shards", 1, "--log-dir", self.directory / "logs", environment=proxy))
        at = ["--cluster", cluster.address]
        trained = self.start("dslide", "train", "-q", "--data", self.data, *at, "--steps", 2,
                             environment=proxy).finish()
        assert_ended(trained, OK)
        for command in ("eval", "predict"):
            refused = self.run_dslide(command, *at, "--data", self.directory / "small.txt")
            assert_ended(refused, USAGE, "10 features and 10 labels, .* 500 and 300: it is other")
        other = self.directory / "other"
        assert_ended(self.run_dslide("train", "-q", "--data", self.data, "--steps", 2, "--seed", 7,
                                     "--model-dir", other), OK)
        refused = self.run_dslide("predict", *at, "--model-dir", other, "--data", self.data)
        assert_ended(refused, USAGE, "not the one of .*other: its seed is 1, not 7")

    def test_a_new_coordinator_learns_the_models_from_their_shards(self) -> None:
        own = ["--listen", f"127.0.0.1:{processes.free_port()}"]
        coordinator = self.start_coordinator(*own)
        self.start_shard(coordinator)
        trainer = self.start("dslide", "train", "--data", self.data, "--epochs", 300, "--patience",
                             0, "--steps", 3000, "--batch-size", 20, "--name", "kept", "--cluster",
                             coordinator.address, "--admin", "127.0.0.1:0")
        page = trainer.wait_for_stderr(r"http://(\S+)/metrics").group(1)
        processes.wait_until(
            lambda: (processes.metric(page, "dslide_trainer_steps_total") or 0) > 10,
            lambda: str(trainer))
        coordinator.process.kill()
        coordinator = self.start_coordinator(*own)
        assert_ended(trainer.finish(), OK)
        models = self.run_dslide("model", "list", "--cluster", coordinator.address, "-o", "json")
        assert [model["name"] for model in models.json()["models"]] == ["kept"]
