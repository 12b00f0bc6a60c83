"""What the scenarios with operators are judged by, and what their images are; without a cluster."""

import json
import pathlib
import re
import subprocess
import tarfile
from typing import Any

import dashboard_queries
import kueue
import operator_images
import prometheus
import pytest
import yaml
from cluster import ClusterError
from lasting_training import Training

TOOLS = pathlib.Path(kueue.__file__).parent
PROGRAMS = TOOLS / "operator-programs"


def version(name: str, module: str) -> str:
    """Of what operator-programs/NAME builds."""
    text = (PROGRAMS / name / "go.mod").read_text(encoding="utf-8")
    found = re.search(rf"\b{re.escape(module)} v(\S+)", text)
    assert found, name
    return found.group(1)


def prometheus_version() -> str:
    """Its module counts otherwise: 0.305 is of 3.5."""
    _, minor, patch = version("prometheus", "github.com/prometheus/prometheus").split(".")
    return f"v{minor[0]}.{int(minor[1:])}.{patch}"


def test_images_have_the_versions_that_are_built() -> None:
    cert = version("cert-manager", "github.com/cert-manager/cert-manager")
    operator = version("prometheus-operator",
                       "github.com/prometheus-operator/prometheus-operator")
    release = version("kueue", "sigs.k8s.io/kueue").rpartition(".")[0]
    assert [image.name.rpartition(":")[2] for image in operator_images.IMAGES] == [
        f"release-{release}", *[f"v{cert}"] * 3, *[f"v{operator}"] * 2, prometheus_version()]


def test_every_program_that_is_built_is_in_an_image() -> None:
    built = [path.rpartition("/")[2] for file in PROGRAMS.glob("*/programs.go")
             for path in re.findall(r'_ "(.*)"', file.read_text(encoding="utf-8"))]
    assert sorted(built) == sorted({image.program for image in operator_images.IMAGES})


def test_an_image_begins_with_its_part(tmp_path: pathlib.Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "cert-manager").write_text("#!/bin/sh\n", encoding="ascii")
    image = next(image for image in operator_images.IMAGES if image.part == "webhook")
    archive = operator_images.make_one(image, tmp_path / "bin", tmp_path)
    with tarfile.open(archive) as members:
        manifest = json.load(members.extractfile("manifest.json"))[0]  # type: ignore[arg-type]
        settings = json.load(members.extractfile(manifest["Config"]))  # type: ignore[arg-type]
    assert manifest["RepoTags"] == [image.name]
    assert settings["config"]["Entrypoint"] == ["/cert-manager", "webhook"]


class Told:
    """A release, a cluster or a Prometheus that answers what it was given."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def get(self, *question: object) -> Any:
        return self.answer

    ask = kubectl = get


def test_queries_of_dashboards_have_no_variable_left() -> None:
    board = {"panels": [{"title": "row"}, {"title": "Loss", "targets": [
        {"expr": 'rate(a_total{pod=~"$pod",top="1"}[$__rate_interval])'}]}]}
    release = Told([{"data": {"training.json": json.dumps(board)}}])
    assert dashboard_queries.read(release) == [  # type: ignore[arg-type]
        dashboard_queries.Query("training.json", "Loss", 'rate(a_total{pod=~".*",top="1"}[1m])')]


class Jobs:
    """A release whose job is told of, one answer after the other."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.answers = list(answers)

    def job(self, name: str) -> Any:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if not answer:
            raise ClusterError("the coordinator does not answer")
        return answer


def training_of(*answers: dict[str, Any]) -> Training:
    return Training(Jobs(*answers), "a", 4)  # type: ignore[arg-type]


def test_progress_is_counted_over_epochs() -> None:
    job = {"epoch": 2, "samples_per_epoch": 100, "samples_done": 30, "finished": False,
           "trainers": 2}
    assert training_of(job).samples() == 230
    assert training_of({}).samples() is None
    assert training_of(job, job, job | {"samples_done": 60}).wait_for_progress() == 260
    with pytest.raises(ClusterError, match="over too early"):
        training_of(job | {"finished": True}).wait_for_progress()


@pytest.mark.parametrize(("chunks", "is_well"), [(40, True), (41, False), (0, False)])
def test_every_epoch_has_as_many_chunks(chunks: int, is_well: bool) -> None:
    page = f"# TYPE a\ndslide_coordinator_chunks_done_total {chunks}\n"
    assert kueue.trained_chunks(Told(page)) == chunks  # type: ignore[arg-type]
    if is_well:
        kueue.check_chunks(chunks)
        return
    with pytest.raises(ClusterError, match=f"{chunks} chunks"):
        kueue.check_chunks(chunks)


def test_alerts_and_targets_are_told_by_their_states() -> None:
    alerts = {"alerts": [{"state": "firing", "labels": {"alertname": "B"}},
                         {"state": "pending", "labels": {"alertname": "A"}}]}
    there = prometheus.Prometheus(Told(json.dumps({"data": alerts})))  # type: ignore[arg-type]
    assert there.alerts("firing") == ["B"]
    targets = {"activeTargets": [{"labels": {"pod": "a-0"}, "scrapeUrl": "", "health": "down"}]}
    there = prometheus.Prometheus(Told(json.dumps({"data": targets})))  # type: ignore[arg-type]
    assert there.healths() == {"a-0": "down"}


def test_the_queue_has_room_for_the_trainers_or_for_what_is_important() -> None:
    queue = next(item for item in yaml.safe_load_all(kueue.QUEUES.read_text(encoding="utf-8"))
                 if item["kind"] == "ClusterQueue")
    quota = next(resource["nominalQuota"]
                 for resource in queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"]
                 if resource["name"] == "cpu")
    important = yaml.safe_load(kueue.IMPORTANT.read_text(encoding="utf-8"))
    container = important["spec"]["template"]["spec"]["containers"][0]
    assert container["resources"]["requests"]["cpu"] == f"{float(quota) * 1000:.0f}m"


def test_folders_of_modules_have_all_that_go_needs() -> None:
    for folder in PROGRAMS.iterdir():
        assert {path.name for path in folder.iterdir()} >= {"go.mod", "go.sum", "programs.go"}
    assert subprocess.run([TOOLS / "operators.sh", "--find", "/nonexistent"],
                          check=False).returncode == 1
