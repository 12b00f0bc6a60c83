"""The run with containers where it cannot run, and how it reads what containers say."""

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import base_image
import compose_check
import processes
import pytest
import tls_check
from engine import CommandFailed, Unavailable, run

PROGRAM = pathlib.Path(__file__).with_name("compose_run.py")


def run_program(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "DOCKER_HOST"}
    return subprocess.run([sys.executable, PROGRAM, *arguments], capture_output=True, text=True,
                          timeout=processes.PATIENCE_SECONDS, env=environment)


def test_without_an_engine_it_is_skipped_loudly() -> None:
    done = run_program("-o", "json")
    assert done.returncode == processes.SKIPPED, done.stderr
    assert "SKIPPED: " in done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "passed": False, "skipped": ["image", "compose", "tls", "vms"]}


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


def knocked(python: mock.Mock, **found: list[str]) -> int:
    """What is made of what strangers.py says."""
    said = {"tried": 4, "refused": 4, "served": [], "unknown": []} | found
    python.return_value.stdout = f"noise\n{json.dumps(said)}\n"
    authority = mock.Mock(visit=lambda: ["--work", "here"])
    return tls_check.knock(python, authority, ["a:1", "b:2"], "--revoked", "thief")


def test_refusals_are_counted() -> None:
    python = mock.Mock()
    assert knocked(python) == 4
    words = ("--work", "here", "--revoked", "thief", "a:1", "b:2")
    assert python.call_args.args[1:] == words


@pytest.mark.parametrize("wrong", [{"served": ["thief at a:1"]}, {"unknown": ["trainer at b:2"]}])
def test_who_is_served_or_unknown_wrongly_fails(wrong: dict[str, list[str]]) -> None:
    with pytest.raises(CommandFailed, match="(thief|trainer) at"):
        knocked(mock.Mock(), **wrong)


def test_the_base_image_is_pulled_when_it_is_missing() -> None:
    known = mock.Mock(has_image=lambda name: True)
    assert base_image.provide(known, "trixie", "/nonexistent") == "debian:trixie-slim"
    known.docker.assert_not_called()
    unknown = mock.Mock(has_image=lambda name: False)
    unknown.docker.return_value.returncode = 0
    name = base_image.provide(unknown, "trixie", "/nonexistent")
    assert unknown.docker.call_args.args == ("pull", "-q", name)


def test_without_a_registry_and_debootstrap_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    engine = mock.Mock(has_image=lambda name: False)
    engine.docker.return_value.returncode = 1
    with pytest.raises(Unavailable, match="debian:trixie-slim cannot be pulled"):
        base_image.provide(engine, "trixie", "/nonexistent")


def test_metrics_are_summed_over_labels_and_containers(monkeypatch: pytest.MonkeyPatch) -> None:
    page = '# HELP lost_total x\nlost_total 1\nlost_total{a="b"} 2\nlost_total_more 50\n'
    monkeypatch.setattr(processes, "fetch", lambda address: page)
    engine = mock.Mock(address=lambda container: "127.0.0.1")
    assert compose_check.metric_sum(engine, ["one", "two"], 1, "lost_total") == 6
    with pytest.raises(CommandFailed, match="no metric absent"):
        compose_check.metric_sum(engine, ["one"], 1, "absent")


Start = Callable[[str], compose_check.Running]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a script; it ends with the test."""
    running: list[compose_check.Running] = []

    def call(script: str) -> compose_check.Running:
        running.append(compose_check.Running(["/bin/sh", "-c", script], {}))
        return running[-1]

    yield call
    for process in running:
        process.kill()


def test_a_running_command(start: Start) -> None:
    running = start("echo 'epoch 1: P@1' >&2; echo note; echo '{\"a\": 1}'")
    running.wait_for("epoch 1")
    assert running.result() == {"a": 1}
    running = start("echo why >&2; exit 3")
    with pytest.raises(CommandFailed, match=r"(?s)ended with 3.*why"):
        running.result()
    with pytest.raises(CommandFailed, match=r"(?s)without.*why"):
        running.wait_for("epoch 1")


def test_a_command_that_fails_or_hangs_says_so() -> None:
    with pytest.raises(CommandFailed, match="status 1"):
        run(["/bin/false"])
    with pytest.raises(CommandFailed, match="no end within"):
        run(["/bin/sleep", "5"], within=0.1)
