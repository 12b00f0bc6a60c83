"""Two models and three jobs at once on compose.yaml, while the coordinator's container is replaced:
one job is finished, one cancelled, one grown."""

import dataclasses
import json
import os
import pathlib
import re
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

import dashboards
import processes
from compose_check import (
    COMPOSE,
    READY_SECONDS,
    SHARDS,
    Project,
    metric_sum,
    result_of,
)
from engine import Engine, Word, check, note, say
from processes import Process, Programs, wait_until
from prometheus_server import RATE_WINDOW, PrometheusServer

# {job: its model}
MODELS = {"done": "narrow", "grown": "wide", "stopped": "wide"}
EPOCHS = {"done": 6, "grown": 20, "stopped": 100_000}
LABELS, GROWN_BY_HAND, MORE_LABELS = 3000, 3100, 3300
# {file: (first point, points, labels)} of generated data
FILES = {"train": (0, 8000, LABELS), "test": (8000, 4000, LABELS), "few": (0, 2000, LABELS),
         "more": (0, 2000, MORE_LABELS)}
# Few large steps: they take long enough for what happens meanwhile, and no longer where each waits
# for a processor.
BATCH = 128
# Of one job with one trainer, whose steps come in the same order.
PRECISION_TOLERANCE = 0.01
PROMETHEUS = "/usr/bin/prometheus"


@dataclasses.dataclass(frozen=True)
class State:
    """What there is to be seen of a job."""

    finished: bool = False
    cancelled: bool = False
    trainers: int = 0


def make_data(engine: Engine, image: str, folder: pathlib.Path) -> None:
    """Writes FILES, as the user of the image."""
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    for name, (first, points, labels) in FILES.items():
        engine.docker("run", "--rm", "--network", "none", "-v", f"{folder}:/data", image, "data",
                      "gen", "--output", f"/data/{name}.txt", "--points", points, "--first-point",
                      first, "--features", 2000, "--labels", labels, "--seed", 7)


def training(job: str) -> list[Word]:
    """The words of its training, wherever it runs."""
    files = {"done": ["--data", "/data/train.txt", "--eval", "/data/test.txt"],
             "stopped": ["--data", "/data/few.txt"],
             "grown": ["--data", "/data/more.txt", "--grow"]}
    return ["train", *files[job], "--name", MODELS[job], "--job", job, "--epochs", EPOCHS[job],
            "--patience", 0, "--batch-size", BATCH, "-o", "json"]


class Cluster:
    """The containers of a project, and what is asked of them."""

    def __init__(self, project: Project, data: pathlib.Path) -> None:
        self.project = project
        self._data = data

    def train(self, job: str) -> Process:
        words = training(job)
        # What it depends on is there; a slow health check is no reason to refuse it.
        return self.project.start(
            "run", "--rm", "--no-deps", "-T", "--name", self._trainer(job), "-v",
            f"{self._data}:/data:ro", "trainer", *words, "--model-dir",
            f"/var/lib/dslide/{job}", "--overwrite")

    def _trainer(self, job: str) -> str:
        return f"{self.project.name}-{job}"

    def ask(self, *words: Word) -> Any:
        """What a command of `dslide` says of the cluster."""
        done = self.project.compose("exec", "-T", "shard-0", "/usr/bin/dslide", "--insecure",
                                    *words, "--cluster", "coordinator:7000", "-o", "json")
        return json.loads(done.stdout)

    def page(self) -> str:
        return processes.fetch(self._coordinator_page())

    def _coordinator_page(self) -> str:
        return f"{self.project.engine.address(self.project.container('coordinator'))}:7001"

    def admins(self, trainers: Sequence[str] = ()) -> dict[str, list[str]]:
        """{Prometheus' job: [admin page]}, with the trainers of these jobs."""
        def pages(port: int, containers: Sequence[str]) -> list[str]:
            return [f"{self.project.engine.address(name)}:{port}" for name in containers]

        return {"dslide-coordinator": [self._coordinator_page()],
                "dslide-shard": pages(7011, [self.project.container(name) for name in SHARDS]),
                "dslide-trainer": pages(7021, [self._trainer(job) for job in trainers])}

    def rows(self, model: str) -> int:
        """Of its head."""
        found = {one["name"]: one for one in self.ask("model", "list")["models"]}
        return int(found[model]["tables"][1]["rows"])

    def wait_for_progress(self, trainers: Mapping[str, Process]) -> None:
        """Until each job has trained more samples than now."""
        before = {job: samples(self.page(), job) for job in trainers}
        wait_until(
            lambda: all(samples(self.page(), job) > before[job] for job in trainers),
            lambda: f"more samples of each job than {before}", list(trainers.values()))

    def replace_coordinator(self) -> None:
        """A new container on the volume of the one before."""
        before = self.project.container("coordinator")
        self.project.compose("up", "-d", "--no-deps", "--force-recreate", "coordinator")
        check(self.project.container("coordinator") != before, "the coordinator was not replaced")
        wait_until(lambda: processes.look_at(self._coordinator_page(), "/readyz")[0] == 200,
                   lambda: "the coordinator is ready again")


def metric_of(page: str, name: str, job: str) -> float | None:
    labels = re.escape(f'{{job_name="{job}",model="{MODELS[job]}"}}')
    found = re.search(rf"^dslide_coordinator_job_{name}{labels} (\S+)$", page, re.MULTILINE)
    return float(found[1]) if found else None


def samples(page: str, job: str) -> float:
    return metric_of(page, "samples", job) or 0.0


def check_told_apart(cluster: Cluster, expected: Mapping[str, State]) -> None:
    """`status`, `job list` and the metrics show each job as its own, and no other."""
    wanted = {job: (MODELS[job], *dataclasses.astuple(state)) for job, state in expected.items()}
    status, listed = cluster.ask("status"), cluster.ask("job", "list")
    check(status["models"] == sorted(set(MODELS.values())), f"models: {status['models']}")
    for which, jobs in (("status", status["jobs"]), ("job list", listed["jobs"])):
        shown = {job["job"]: (job["model"], job["finished"], job["cancelled"], job["trainers"])
                 for job in jobs}
        check(shown == wanted, f"{which} shows {shown}, not {wanted}")
    page = cluster.page()
    for job, state in expected.items():
        found = [metric_of(page, name, job) for name in ("finished", "trainers", "max_epochs")]
        check(found == [state.finished, state.trainers, EPOCHS[job]],
              f"metrics of {job}: finished, trainers, max_epochs {found}")


def check_dashboards(cluster: Cluster, directory: pathlib.Path) -> int | None:
    """Each query that names a job returns all three, and of one that is chosen nothing else; how
    many there are, None without a Prometheus to ask."""
    if not os.access(PROMETHEUS, os.X_OK):
        note(f"SKIPPED: jobs: dashboards: no {PROMETHEUS}; apt-get install prometheus")
        return None
    queries = [query for query in dashboards.queries() if '"$job_name"' in query.expression]
    with Programs(directory) as programs:
        prometheus = PrometheusServer(programs, cluster.admins(list(MODELS)))

        def jobs_in(query: dashboards.Query) -> set[str]:
            found = prometheus.get("query", query=query.ready(RATE_WINDOW))
            return {series["metric"].get("job_name") for series in found["result"]}

        for query in queries:
            where = f"{query.dashboard}, {query.panel}"
            wait_until(lambda: jobs_in(query) == set(MODELS), lambda: f"all jobs in {where}")
            for job in MODELS:
                chosen = dataclasses.replace(
                    query, expression=query.expression.replace('"$job_name"', f'"{job}"'))
                check(jobs_in(chosen) == {job}, f"{where}, of {job}: {jobs_in(chosen)}")
    note(f"{len(queries)} queries of dashboards tell the jobs apart")
    return len(queries)


def train_jobs(cluster: Cluster, directory: pathlib.Path) -> dict[str, Any]:
    """The results of the three trainings, by job; and what was seen meanwhile."""
    trainers: dict[str, Process] = {}
    try:
        for job in ("stopped", "done"):
            trainers[job] = cluster.train(job)
        cluster.wait_for_progress(trainers)
        grown = cluster.ask("model", "grow", "wide", "--table", "labels", "--rows", GROWN_BY_HAND)
        check((grown["rows_before"], grown["rows"]) == (LABELS, GROWN_BY_HAND), f"grown: {grown}")
        trainers["grown"] = cluster.train("grown")
        cluster.wait_for_progress(trainers)
        rows = {model: cluster.rows(model) for model in set(MODELS.values())}
        check(rows == {"narrow": LABELS, "wide": MORE_LABELS}, f"rows of the heads: {rows}")
        cluster.replace_coordinator()
        note("the coordinator was replaced beside three jobs")
        cluster.wait_for_progress(trainers)
        check_told_apart(cluster, dict.fromkeys(MODELS, State(trainers=1)))
        queries = check_dashboards(cluster, directory)
        check(cluster.ask("job", "cancel", "stopped", "--yes")["cancelled"], "not cancelled")
        cluster.replace_coordinator()
        results = {job: result_of(trainer) for job, trainer in trainers.items()}
        return results | {"queries": queries}
    finally:
        for trainer in trainers.values():
            trainer.kill()


def check_ends(cluster: Cluster, results: Mapping[str, Any]) -> None:
    """What the jobs have come to, also after one more coordinator; who joins trains nothing."""
    ended = {"done": State(True), "grown": State(True), "stopped": State(True, True)}
    check_told_apart(cluster, ended)
    cluster.replace_coordinator()
    check_told_apart(cluster, ended)
    for job in ("done", "grown"):
        epochs = [point["epoch"] for point in cluster.ask("job", "describe", job)["epochs"]]
        check(epochs == list(range(EPOCHS[job])), f"{job} has trained the epochs {epochs}")
    check(results["stopped"]["cancelled"], f"the cancelled trainer says {results['stopped']}")
    joined = cluster.train("done")
    try:
        steps = result_of(joined)["steps"]
    finally:
        joined.kill()
    check(steps == 0, f"who joined the finished job trained {steps} steps")


def check_jobs(engine: Engine, image: str, example: str,
               directory: pathlib.Path) -> dict[str, Any]:
    """Figures of the three jobs, one of them beside a training that nobody disturbed."""
    say("Three jobs of two models at once, while the coordinator is replaced")
    directory = directory / "jobs"
    shutil.rmtree(directory, ignore_errors=True)  # of a run that was ended
    data = directory / "data"
    make_data(engine, image, data)
    alone = json.loads(engine.output(
        "run", "--rm", "--network", "none", "--read-only", "--tmpfs", "/tmp", "-v",
        f"{data}:/data:ro", image, *training("done"), "-q", "--shards", len(SHARDS),
        within=READY_SECONDS).splitlines()[-1])
    project = Project(engine, f"dslide-jobs-{os.getpid()}", [COMPOSE],
                      {"DSLIDE_IMAGE": image, "DSLIDE_EXAMPLE_IMAGE": example,
                       "DSLIDE_DURABILITY": "log"})
    cluster = Cluster(project, data)
    try:
        project.up()
        results = train_jobs(cluster, directory)
        check_ends(cluster, results)
        lost = metric_sum(engine, [project.container(name) for name in SHARDS], 7011,
                          "dslide_shard_acked_loss_total")
    finally:
        project.remove()
    shutil.rmtree(directory)
    return judge(alone, results["done"], lost) | {"jobs": len(MODELS),
                                                  "job_queries": results["queries"]}


def judge(alone: Any, done: Any, lost: float) -> dict[str, Any]:
    """The job over three coordinators is the one that had but one."""
    found = {"job_epochs": done["epochs"], "job_steps": done["steps"],
             "job_p_at_1": done["p_at_1"], "job_embedded_p_at_1": alone["p_at_1"],
             "job_lost": int(lost)}
    note(f"P@1 {done['p_at_1']:.4f} after {done['epochs']} epochs (one process: "
         f"{alone['p_at_1']:.4f}), lost {lost:g}")
    check(lost == 0, f"{lost:g} confirmed updates were lost")
    for name in ("epochs", "steps"):
        check(done[name] == alone[name], f"{done[name]} {name} instead of {alone[name]}")
    difference = abs(done["p_at_1"] - alone["p_at_1"])
    check(difference <= PRECISION_TOLERANCE, f"P@1 differs by {difference:.4f}")
    return found
