"""The example for Kubeflow Trainer has the pod of the chart's trainers, and flags that exist."""

import pathlib
import re
import subprocess

import chart
import pytest
from chart import Object, Objects, main_container
from processes import PATIENCE_SECONDS

FOLDER = chart.ROOT / "deploy/kubeflow"


def parse(name: str) -> Object:
    [found] = Objects.parse((FOLDER / name).read_text(encoding="utf-8"))
    return found


@pytest.fixture
def runtime() -> Object:
    return parse("runtime.yaml")


@pytest.fixture
def node(runtime: Object) -> Object:
    """The template of the Jobs that a TrainJob becomes."""
    [job] = runtime.spec.template.spec.replicatedJobs
    # By this Kubeflow knows whose number, image and variables are the TrainJob's.
    assert job.template.metadata.labels["trainer.kubeflow.org/trainjob-ancestor-step"] == "trainer"
    spec: Object = job.template.spec
    return spec


def variables(container: Object) -> dict[str, str]:
    return {item.name: str(item.value or item.valueFrom) for item in container.env}


def test_a_trainer_is_what_it_is_in_the_chart(node: Object) -> None:
    job = chart.render([chart.ci_file("tls")], {
        "trainer": {"enabled": True, "data": "/d", "resources": {"limits": {"cpu": "2"}}},
    }).one("Job").spec
    for rule in node.podFailurePolicy.rules:
        for condition in rule.onPodConditions or []:
            assert condition.pop("status") == "True"  # which a Job takes for granted
        if rule.onExitCodes:
            assert rule.onExitCodes.containerName == main_container(node.template).name
            rule.onExitCodes["containerName"] = "trainer"
    for name in ("completionMode", "backoffLimitPerIndex", "podFailurePolicy"):
        assert node[name] == job[name]
    ours, theirs = node.template.spec, job.template.spec
    ours.securityContext["fsGroupChangePolicy"] = theirs.securityContext.fsGroupChangePolicy
    for name in ("restartPolicy", "enableServiceLinks", "securityContext",
                 "terminationGracePeriodSeconds"):
        assert ours[name] == theirs[name]
    one, other = main_container(node.template), main_container(job.template)
    assert (one.command, one.securityContext) == (other.command, other.securityContext)
    said = variables(other)
    for name, value in variables(one).items():
        if name.startswith("DSLIDE_TLS"):
            assert said[name] == value
    [mount] = [item for item in one.volumeMounts if item.name == "tls"]
    assert mount in other.volumeMounts
    [secret] = [item.secret for item in ours.volumes if item.name == "tls"]
    [theirs] = [item.secret for item in theirs.volumes if item.name == "tls"]
    assert (secret.secretName, secret.defaultMode) == ("dslide-trainer-tls", theirs.defaultMode)
    assert theirs.secretName.endswith("-trainer-tls")


def test_a_train_job_names_the_runtime_and_variables_of_flags(
        runtime: Object, node: Object, bin_dir: pathlib.Path) -> None:
    train_job = parse("train-job.yaml")
    assert train_job.spec.runtimeRef.name == runtime.metadata.name
    container = main_container(node.template)
    text = "".join(
        subprocess.run([bin_dir / "dslide", *command, "--help"], capture_output=True, text=True,
                       timeout=PATIENCE_SECONDS, check=True).stdout
        for command in ((), tuple(container.args)))
    known = set(re.findall(r"Env:(DSLIDE_[A-Z_]+)", text))
    asked = {*variables(container), *variables(train_job.spec.trainer)}
    assert asked <= known, asked - known
    version = (chart.ROOT / "VERSION").read_text(encoding="ascii").strip()
    assert container.image == f"dslide:{version}"
