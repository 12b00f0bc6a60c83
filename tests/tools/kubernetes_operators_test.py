"""What the scenarios with operators are judged by, and what their images are; without a cluster."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
from typing import Any

import alert_causes
import dashboard_queries
import hasty_rules
import kueue
import operator_images
import operators
import prometheus
import pytest
import yaml
from cluster import ClusterError
from lasting_training import Training
from steps import Steps

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
    whole = float(quota) * 1000
    assert container["resources"]["requests"]["cpu"] == f"{whole:.0f}m"
    assert f"cpu: {whole:.0f}m" == kueue.ALL
    trainer = yaml.safe_load(kueue.VALUES.read_text(encoding="utf-8"))["trainer"]
    one = int(trainer["resources"]["requests"]["cpu"].removesuffix("m"))
    assert f"cpu: {whole - one:.0f}m" == kueue.ALL_BUT_ONE


def test_folders_of_modules_have_all_that_go_needs() -> None:
    for folder in PROGRAMS.iterdir():
        assert {path.name for path in folder.iterdir()} >= {"go.mod", "go.sum", "programs.go"}
    assert subprocess.run([TOOLS / "operators.sh", "--find", "/nonexistent"],
                          check=False).returncode == 1


RULES = [{"alert": "DslideCertificateExpires", "expr": "a - time() < 7 * 86400", "for": "1h"},
         {"alert": "DslideInsecure", "expr": "b == 1", "for": "1h"},
         {"alert": "DslideNoClusterCheckpoint", "expr": "c > 86400 and d", "for": "30m"}]


def test_hasty_rules_are_the_release_s_own_but_for_their_times() -> None:
    assert hasty_rules.hasten(RULES) == [
        {"alert": "DslideCertificateExpiresInHaste", "expr": "a - time() < 7 * 86400",
         "for": "10s"},
        {"alert": "DslideNoClusterCheckpointInHaste", "expr": "c > 90 and d", "for": "10s"}]
    with pytest.raises(ClusterError, match="not all"):
        hasty_rules.hasten(RULES[:2])
    with pytest.raises(ClusterError, match="has no '> 86400'"):
        hasty_rules.hasten([RULES[2] | {"expr": "c > 1"}])


class Alerts:
    """A Prometheus whose firing alerts are told, one answer after the other."""

    def __init__(self, *firing: list[str]) -> None:
        self.firing = list(firing)

    def alerts(self, state: str) -> list[str]:
        if state == "pending":
            return []
        return self.firing.pop(0) if len(self.firing) > 1 else self.firing[0]


def test_a_cause_is_mended_when_all_its_alerts_fire(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    cause = alert_causes.Cause("fire", ["A", "B"], lambda: done.append("made"),
                               lambda: done.append("mended"))

    def alarm(*firing: list[str]) -> None:
        alert_causes.Alarm(Alerts(*firing), Steps())(cause)  # type: ignore[arg-type]

    alarm(["C"], [], ["A"], ["A", "B", "C"], ["A", "B", "C"], ["B"], ["C"])
    assert done == ["made", "mended"]
    with pytest.raises(ClusterError, match="before fire is made: .'A'"):
        alarm(["A", "C"])
    monkeypatch.setattr(alert_causes, "PATIENCE", 0.0)
    with pytest.raises(ClusterError, match=r"fire: alerts fire; firing: .'A'.; pending: "):
        alarm([], ["A"])


@pytest.mark.parametrize(("values", "has_data"), [([], False), (["NaN"], False),
                                                  (["NaN", "0"], True)])
def test_a_panel_draws_numbers_only(values: list[str], has_data: bool) -> None:
    answer = json.dumps({"data": {"result": [{"value": [0, value]} for value in values]}})
    there = prometheus.Prometheus(Told(answer))  # type: ignore[arg-type]
    assert there.has_data("a") == has_data


def test_parts_of_the_operators_are_done_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    for name in ("live_with_kueue", "provide_issuers", "live_with_cert_manager",
                 "live_with_prometheus"):
        monkeypatch.setattr(operators, name, lambda *_, name=name: done.append(name))
    nothing: Any = None
    operators.operators(nothing, nothing, pathlib.Path(), Steps(), ["prometheus"])
    assert done == ["provide_issuers", "live_with_prometheus"]
    done.clear()
    operators.operators(nothing, nothing, pathlib.Path(), Steps(), ["kueue"])
    assert done == ["live_with_kueue"]


# A Go whose modules have all manifests, and whose programs are empty.
GO = """#!/bin/sh
case "$1" in
  version) echo 'go version go1.26.0 linux/amd64' ;;
  list) echo "$MODULE" ;;
  build)
    while [ "$1" != -o ]; do shift; done
    pwd >>"$MODULE/built"
    folder="$2"
    shift 2
    for package; do : >"$folder/${package##*/}"; done
    ;;
esac
"""


def test_only_what_has_changed_of_the_operators_is_built(
        tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools, module = tmp_path / "tools", tmp_path / "module"
    shutil.copytree(TOOLS, tools / "kubernetes")
    shutil.copytree(TOOLS.parent / "common", tools / "common")
    for chart in ("charts/kueue", "deploy/charts/cert-manager"):
        (module / chart).mkdir(parents=True)
    (module / "bundle.yaml").touch()
    go = tmp_path / "go"
    go.write_text(GO, encoding="ascii")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("MODULE", str(module))

    def provide(*flags: str) -> tuple[int, str, set[str]]:
        """Status, folder and which of the operators were built."""
        (module / "built").write_text("", encoding="ascii")
        ran = subprocess.run([tools / "kubernetes" / "operators.sh", *flags, tmp_path / "made"],
                             check=False, text=True, stdout=subprocess.PIPE)
        built = (module / "built").read_text(encoding="utf-8").split()
        return ran.returncode, ran.stdout.strip(), {pathlib.Path(path).name for path in built}

    status, first, built = provide()
    assert (status, built) == (0, {path.name for path in PROGRAMS.iterdir()})
    assert {path.name for path in (pathlib.Path(first) / "bin").iterdir()} == {
        image.program for image in operator_images.IMAGES}
    assert provide("--find") == (0, first, set())
    programs = tools / "kubernetes" / "operator-programs"
    (programs / "cert-manager" / "cert-manager" / "another.go").touch()
    assert provide("--find") == (1, "", set())
    status, second, built = provide()
    assert (status, built) == (0, {"cert-manager"})
    assert second != first
    assert sorted(path.name for path in pathlib.Path(second).iterdir()) == [
        "bin", "charts", "prometheus-operator.yaml"]
