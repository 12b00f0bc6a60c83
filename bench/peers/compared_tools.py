"""The tools of ./run bench peers: how each trains and predicts, and what it took."""

import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import threading
import time
from collections.abc import Iterator

import measured_child
from data_sets import GROUPS
from environment import Environment
from measured_child import LeftOut
from programs import processes

WORKERS = pathlib.Path(__file__).resolve().parent / "workers"
K = 5
# Single points whose prediction by dslide is timed.
_QUERIES = 1000
# While shards and trainer share the processors, a thread that waits must not spin.
DSLIDE_ENVIRONMENT = {
    **{key: value for key, value in os.environ.items() if not key.startswith("DSLIDE_")},
    "OMP_WAIT_POLICY": "passive",
}
# Their libraries take all processors where these do not say otherwise.
_PEERS = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}


@dataclasses.dataclass
class Prepared:
    """A data set on disk, as the tools read it."""

    # train.txt and test.txt as they are, groups.txt where the set has one, and what is made of them.
    folder: pathlib.Path
    limit_seconds: float  # of one training or prediction


@dataclasses.dataclass
class Run:
    """One training. `cpu_seconds` and `wall_seconds` leave out what the tool lets us separate."""

    cpu_seconds: float
    wall_seconds: float
    process_cpu_seconds: float  # of the whole process, its start and the reading of data included
    peak_rss_bytes: int
    model_bytes: int
    predict_p50_ms: float | None
    ranked: list[list[int]]


@dataclasses.dataclass
class Tool:
    """A tool as it is compared. Without a worker it is dslide itself."""

    key: str
    title: str
    settings: str
    worker: str = ""
    module: str = ""
    trees: int = 1
    environment: str = "peers"
    counted: str = "from the data in memory to the model on disk"  # as processor time of training

    def why_not(self, environments: dict[str, Environment]) -> str | None:
        """Why it cannot be run here, and what to do about it; None where it can."""
        if not self.worker:
            return None
        if self.environment not in environments:
            return "PyTorch is 6 GB: it is left out without --with-torch"
        return environments[self.environment].why_not(self.module)

    def run(
        self, data: Prepared, folder: pathlib.Path, seed: int, environments: dict[str, Environment]
    ) -> Run:
        """Trains and predicts in the empty `folder`. Raises LeftOut."""
        if not self.worker:
            return _run_dslide(data, folder, seed)
        python = environments[self.environment].python
        return _run_peer([python, WORKERS / f"{self.worker}.py"], data, folder, [seed, self.trees])


_FROM_FILE = "from the file to the model on disk"
_PECOS = ("run_pecos", "pecos.xmc.xlinear.model")
TOOLS = [
    Tool("dslide", "dslide", "no model spec", counted="the whole process"),
    Tool("pecos", "PECOS", "XR-Linear, 16-means, beam 20", *_PECOS),
    Tool("pecos3", "PECOS, 3 trees", "the mean of three seeds", *_PECOS, trees=3),
    Tool("napkinxc", "napkinXC", "label tree, 2-means", "run_napkinxc", "napkinxc.models"),
    Tool("omikuji", "omikuji, 3 trees", "Parabel", "run_omikuji", "omikuji", 3, counted=_FROM_FILE),
    Tool(
        "fasttext",
        "fastText",
        "one-vs-all, hierarchical softmax above 10,000 labels",
        "run_fasttext",
        "fasttext",
        counted=_FROM_FILE,
    ),
    Tool("dense", "dense, PyTorch", "128 hidden units", "run_dense", "torch", environment="torch"),
]


def _bytes_below(folder: pathlib.Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _last_json(text: str) -> dict[str, float]:
    """The last object: libraries print bars before it, without a line's end."""
    begin = text.rfind("{")
    if begin < 0:
        raise LeftOut(f"no JSON object on its stdout: {text[-200:]!r}")
    return json.loads(text[begin:])


def _run_peer(
    command: list[pathlib.Path], data: Prepared, folder: pathlib.Path, parameters: list[int]
) -> Run:
    model, ranked = folder / "model", folder / "ranked"
    model.mkdir()
    trained = measured_child.run(
        [*command, "train", data.folder, model, *parameters], folder, data.limit_seconds, _PEERS
    )
    figures = _last_json(trained.stdout)
    predicted = measured_child.run(
        [*command, "predict", data.folder, model, K, ranked], folder, data.limit_seconds, _PEERS
    )
    lines = ranked.read_text(encoding="ascii").splitlines()
    return Run(
        figures["cpu_seconds"],
        figures["wall_seconds"],
        trained.cpu_seconds,
        trained.peak_rss_bytes,
        _bytes_below(model),
        _last_json(predicted.stdout)["predict_p50_ms"],
        [[int(word) for word in line.split()] for line in lines],
    )


def _run_dslide(data: Prepared, folder: pathlib.Path, seed: int) -> Run:
    model, program = folder / "model", processes.bin_dir() / "dslide"
    # Its test points are ranked below, as everybody's: --eval would count as training.
    train = [program, *["train", "-q", "-o", "json", "--model-dir"], model, "--seed", 1 + seed]
    predict = [program, *["predict", "-q", "-o", "json", "--model-dir"], model, "-k", K]
    train += ["--data", data.folder / "train.txt"]
    # What is held out is cut as the test points are.
    if (data.folder / GROUPS).exists():
        train += ["--validation-group", data.folder / GROUPS]
    trained = measured_child.run(
        train,
        folder,
        data.limit_seconds,
        DSLIDE_ENVIRONMENT,
    )
    size = _bytes_below(model)
    predicted = measured_child.run(
        [*predict, "--data", data.folder / "test.txt"],
        folder,
        data.limit_seconds,
        DSLIDE_ENVIRONMENT,
    )
    ranked = [
        [entry["label"] for entry in json.loads(line)["predictions"]]
        for line in predicted.stdout.splitlines()
    ]
    queries = (data.folder / "queries.txt").read_text(encoding="ascii").splitlines()
    return Run(
        trained.cpu_seconds,
        trained.wall_seconds,
        trained.cpu_seconds,
        trained.peak_rss_bytes,
        size,
        _median_answer_ms(
            [*predict, "--threads", 1],
            folder,
            [query for query in queries[:_QUERIES] if query],
            data.limit_seconds,
        ),
        ranked,
    )


def _median_answer_ms(
    command: list[object], folder: pathlib.Path, queries: list[str], limit_seconds: float
) -> float | None:
    """Of a program that answers each line of its stdin with one: the median time of an answer."""
    with (
        open(folder / "stderr", "wb") as err,
        subprocess.Popen(
            [*processes.DIES_WITH_PARENT, *map(str, command)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=err,
            env=DSLIDE_ENVIRONMENT,
            cwd=folder,
            text=True,
        ) as child,
    ):
        # A line without an answer would be waited for.
        limit = threading.Timer(limit_seconds, child.kill)
        limit.start()
        try:
            seconds = list(_answer_seconds(child, queries))
        except BrokenPipeError:
            seconds = []
        finally:
            limit.cancel()
            child.kill()
    return 1e3 * statistics.median(seconds) if seconds else None


def _answer_seconds(child: "subprocess.Popen[str]", queries: list[str]) -> Iterator[float]:
    assert child.stdin and child.stdout
    for number, query in enumerate(queries):
        begin = time.perf_counter()
        child.stdin.write(query + "\n")
        child.stdin.flush()
        if not child.stdout.readline():
            return
        # The first answer waits for the model to be read.
        if number > 0:
            yield time.perf_counter() - begin
