"""The run with containers where it cannot run, and how it reads what containers say."""

import json
import os
import pathlib
import subprocess
import sys
from typing import Any
from unittest import mock

import compose_check
import compose_run
import jobs_check
import processes
import pytest
import tls_check
from engine import CommandFailed

PROGRAM = pathlib.Path(compose_run.__file__)


@pytest.mark.parametrize(("arguments", "grpc"), [
    ([], "experimental"), (["--grpc", "debian"], "debian"), (["--programs", "prebuilt"], "debian")])
def test_the_newer_gRPC_is_tried_unless_the_programs_are_this_machines(
        arguments: list[str], grpc: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["compose_run.py", *arguments])
    assert compose_run.parse().grpc == grpc


def run_program(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "DOCKER_HOST"}
    return subprocess.run([sys.executable, PROGRAM, *arguments], capture_output=True, text=True,
                          timeout=processes.PATIENCE_SECONDS, env=environment)


def test_without_an_engine_it_is_skipped_loudly() -> None:
    done = run_program("-o", "json")
    assert done.returncode == processes.SKIPPED, done.stderr
    assert "SKIPPED: " in done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "passed": False, "skipped": ["image", "compose", "jobs", "tls", "vms"]}


@pytest.mark.parametrize(("arguments", "said"), [
    (["--image", "a:1"], "belong together"),
    (["--epochs", "2"], "--epochs is 2"),
    (["--programs", "prebuilt", "--grpc", "experimental"],
     "the programs are compiled in the image"),
    (["--only", "helm"], "invalid choice"),
])
def test_wrong_use(arguments: list[str], said: str) -> None:
    done = run_program(*arguments)
    assert done.returncode == 2
    assert said in done.stderr


RESULT = {"p_at_1": 0.5, "steps": 100, "samples_per_second": 1.0}


def judged(lost: float = 0.0, kept: float = 0.5, **trained: float) -> Any:
    return compose_check.judge(RESULT, RESULT | trained, lost, kept, {})


def test_equals_pass() -> None:
    found = judged()
    assert (found["p_at_1"], found["embedded_p_at_1"], found["lost"]) == (0.5, 0.5, 0)


@pytest.mark.parametrize(
    "difference", [{"lost": 1.0}, {"kept": 0.49}, {"steps": 99}, {"p_at_1": 0.47}])
def test_each_difference_fails(difference: dict[str, float]) -> None:
    with pytest.raises(CommandFailed):
        judged(**difference)


DONE = {"epochs": 6, "steps": 360, "p_at_1": 0.5}


@pytest.mark.parametrize(("lost", "done", "holds"), [
    (0, {"p_at_1": 0.495}, True), (1, {}, False), (0, {"epochs": 7}, False),
    (0, {"steps": 420}, False), (0, {"p_at_1": 0.48}, False)])
def test_a_job_over_several_coordinators_is_the_undisturbed_one(
        lost: float, done: dict[str, float], holds: bool) -> None:
    if holds:
        assert jobs_check.judge(DONE, DONE | done, lost)["job_epochs"] == 6
        return
    with pytest.raises(CommandFailed):
        jobs_check.judge(DONE, DONE | done, lost)


def test_jobs_are_told_apart_by_what_is_shown_of_each() -> None:
    states = dict.fromkeys(jobs_check.MODELS, jobs_check.State(trainers=1))
    page = "".join(
        f'dslide_coordinator_job_{name}{{job_name="{job}",model="{model}"}} {value}\n'
        for job, model in jobs_check.MODELS.items()
        for name, value in (("finished", 0), ("trainers", 1),
                            ("max_epochs", jobs_check.EPOCHS[job])))
    listed = [{"job": job, "model": model, "finished": False, "cancelled": False, "trainers": 1}
              for job, model in jobs_check.MODELS.items()]
    shown = {"jobs": listed, "models": ["narrow", "wide"]}
    cluster = mock.Mock(ask=lambda *words: shown, page=lambda: page)
    jobs_check.check_told_apart(cluster, states)
    for job in states:
        with pytest.raises(CommandFailed, match="status shows"):
            jobs_check.check_told_apart(cluster, states | {job: jobs_check.State(True)})
    cluster.page = lambda: page.replace('"grown",model="wide"} 1', '"grown",model="wide"} 2')
    with pytest.raises(CommandFailed, match="metrics of grown"):
        jobs_check.check_told_apart(cluster, states)


def test_metrics_are_summed_over_labels_and_containers(monkeypatch: pytest.MonkeyPatch) -> None:
    page = '# HELP lost_total x\nlost_total 1\nlost_total{a="b"} 2\nlost_total_more 50\n'
    monkeypatch.setattr(processes, "fetch", lambda address: page)
    engine = mock.Mock(address=lambda container: "127.0.0.1")
    assert compose_check.metric_sum(engine, ["one", "two"], 1, "lost_total") == 6
    with pytest.raises(CommandFailed, match="no metric absent"):
        compose_check.metric_sum(engine, ["one"], 1, "absent")


def test_what_strangers_are_served_fails() -> None:
    def knocked(**found: list[str]) -> int:
        said = {"tried": 4, "refused": 4, "served": [], "unknown": []} | found
        python = mock.Mock(return_value=mock.Mock(stdout=f"noise\n{json.dumps(said)}\n"))
        return tls_check.knock(python, mock.Mock(visit=lambda: []), ["a:1", "b:2"])

    assert knocked() == 4
    for wrong in ({"served": ["thief at a:1"]}, {"unknown": ["trainer at b:2"]}):
        with pytest.raises(CommandFailed, match="(thief|trainer) at"):
            knocked(**wrong)
