"""Trainers, metrics, helm test, what users pass through, and the chart as a package."""

import re
from typing import Any

import chart
import pytest
import yaml
from chart import Object, Objects, flags, main_container
from sentences import Find, components, of_values, shard_container, shard_of

MONITORS = {"ServiceMonitor", "PodMonitor", "PrometheusRule"}
META = yaml.safe_load((chart.CHART / "Chart.yaml").read_text())
ORDER = """
    global nameOverride fullnameOverride commonLabels commonAnnotations image imagePullSecrets
    replicaCount config extraArgs extraEnv extraEnvFrom service persistence shard tls resources
    startupProbe podSecurityContext securityContext nodeSelector tolerations affinity pdb
    networkPolicy metrics serviceAccount tests extraVolumes extraVolumeMounts initContainers
    sidecars extraObjects"""


def job_pod(objects: Objects) -> Object:
    spec: Object = objects.one("Job").spec.template.spec
    return spec


def dashboards(objects: Objects) -> list[Object]:
    return [item for item in objects.all("ConfigMap") if "-dashboard-" in item.metadata.name]


def monitored(objects: Objects) -> list[str]:
    """The parts whose services the ServiceMonitor selects."""
    wanted = objects.one("ServiceMonitor").spec.selector.matchLabels.items()
    return components(item for item in objects.all("Service")
                      if wanted <= item.metadata.labels.items())


@of_values(
    ("wrong flags and lost state fail the job at once", "trainer",
     lambda objects: (rule := objects.one("Job").spec.podFailurePolicy.rules[1]) and
     (rule.action, rule.onExitCodes["values"],
      rule.onExitCodes.containerName == job_pod(objects).containers[0].name),
     ("FailJob", [2, 5], True)),
    ("the model is an immutable ConfigMap that the trainer reads", "trainer",
     lambda objects: [objects.one("ConfigMap", volume.configMap.name).immutable
                      for volume in job_pod(objects).volumes if volume.name == "model"], [True]),
    ("a ServiceMonitor selects each server once", "monitoring", monitored,
     ["coordinator", "shard"]),
    ("its targets tell which cluster they are of", "monitoring",
     lambda objects: [line.replacement
                      for line in objects.one("ServiceMonitor").spec.endpoints[0].relabelings
                      if line.targetLabel == "dslide_cluster"], ["rel-dslide"]),
    ("alerts lead to a runbook of one's own, and may be left out", "monitoring",
     lambda objects: [(rule.alert, rule.annotations.runbook_url)
                      for group in objects.one("PrometheusRule").spec.groups
                      for rule in group.rules if rule.alert in ("DslideInsecure", "DslideStale")],
     [("DslideStale", "https://wiki.example/dslide#dslidestale")]),
    ("and the servers of predictions", "serve", monitored, ["coordinator", "serve", "shard"]),
    ("servers of predictions come before they go, and only read", "serve",
     lambda objects: (objects.one("Deployment").spec.strategy.rollingUpdate.maxUnavailable,
                      objects.one("Certificate", "-serve").spec.uris), (0, [
                          "dslide://dslide/reader"])),
    ("the autoscaler alone says how many there are", "serve",
     lambda objects: (objects.one("Deployment").spec.replicas,
                      objects.one("HorizontalPodAutoscaler").spec.minReplicas), (None, 3)),
    ("dashboards carry the label that Grafana looks for", "production",
     lambda objects: {(item.metadata.labels.grafana_dashboard,
                       item.metadata.annotations.grafana_folder) for item in dashboards(objects)},
     {("1", "dslide")}),
    ("there is a ConfigMap for every file of a dashboard", "production",
     lambda objects: {name for item in dashboards(objects) for name in item.data},
     {path.name for path in (chart.CHART / "files" / "dashboards").glob("*.json")}),
    ("every shard has a service of its own, which shows gRPC alone", "external",
     lambda objects: [(item.spec.selector["apps.kubernetes.io/pod-index"],
                       item.metadata.annotations["external-dns.alpha.kubernetes.io/hostname"],
                       [port.name for port in item.spec.ports])
                      for item in objects.all("Service") if "-shard-" in item.metadata.name
                      and not item.metadata.name.endswith("-headless")],
     [(str(shard), f"shard-{shard}.dslide.example.com", ["grpc"]) for shard in range(3)]),
    ("what is reached from outside never shows an admin page", "external",
     lambda objects: {port.name for item in objects.all("Service")
                      if item.spec.type == "LoadBalancer" for port in item.spec.ports}, {"grpc"}),
    ("and is scraped nevertheless", "external", monitored, ["coordinator", "serve", "shard"]),
    ("shards say the names that clients use, and their certificate has them", "external",
     lambda objects: (flags(shard_container(objects))["advertise"],
                      objects.one("Certificate", "-shard").spec.dnsNames[1:]),
     ("shard-$(DSLIDE_SHARD_ID).dslide.example.com:7010",
      [f"shard-{shard}.dslide.example.com" for shard in range(3)])),
    ("keys are of the kind that was asked for", "external",
     lambda objects: {(item.spec.privateKey.algorithm, item.spec.privateKey.size)
                      for item in objects.all("Certificate")}, {("RSA", 3072)}),
    ("copies are taken by who may, to the claim", "external",
     lambda objects: (pod := objects.one("CronJob").spec.jobTemplate.spec.template.spec) and
     ([volume.secret.secretName for volume in pod.volumes if volume.secret],
      pod.containers[0].args[-4:],
      [volume.persistentVolumeClaim.claimName for volume in pod.volumes
       if volume.persistentVolumeClaim]),
     (["rel-dslide-operator-tls"],
      ["copy", "--cluster=rel-dslide-coordinator.ns.svc:7000", "--to=/copies", "--keep=7"],
      ["copies"])),
    ("alerts are changed by name", "external",
     lambda objects: [(rule["for"], rule.labels.severity, bool(rule.expr))
                      for group in objects.one("PrometheusRule").spec.groups
                      for rule in group.rules if rule.alert == "DslideStale"],
     [("45m", "page", True)]),
    ("a queue may have the shards, too", "external",
     lambda objects: (label := "kueue.x-k8s.io/queue-name") and
     (objects.shards().metadata.labels[label],
      objects.shards().spec.template.metadata.labels.get(label)), ("training", None)),
    ("helm test ends", "tls",
     lambda objects: objects.one("Pod").spec.activeDeadlineSeconds <= 600, True),
    ("registry and pull secrets of the parent chart are used", "passthrough",
     lambda objects: (shard_container(objects).image, shard_of(objects).imagePullSecrets),
     (f"mirror.example.com/dslide:{META['appVersion']}", [{"name": "mirror"}, {"name": "extra"}])),
)
def test_values(values: str, find: Find, expected: Any) -> None:
    assert find(chart.render_ci(values)) == expected


def test_a_changed_trainer_is_another_job_of_the_same_run() -> None:
    trainer = {"enabled": True, "job": "run", "data": "/d"}
    jobs = [chart.render_insecure(trainer=trainer | more).one("Job")
            for more in ({}, {"extraArgs": ["--seed=2"]})]
    assert jobs[0].metadata.name != jobs[1].metadata.name
    assert [flags(main_container(job.spec.template))["job"] for job in jobs] == ["run", "run"]


@pytest.mark.parametrize("changed", [
    {"replicaCount": 3}, {"ttlSecondsAfterFinished": 60}, {"suspend": True},
    {"labels": {"queue": "night"}}], ids=str)
def test_what_a_job_can_change_keeps_its_trainers(changed: dict[str, Any]) -> None:
    trainer = {"enabled": True, "job": "run", "data": "/d"}
    before, after = (chart.render_insecure(trainer=trainer | more).one("Job")
                     for more in ({}, changed))
    assert before.metadata.name == after.metadata.name
    assert before.spec.template == after.spec.template
    assert before != after


def test_jobs_of_trainers_have_what_differs_from_the_trainer() -> None:
    objects = chart.render_insecure(
        trainer={"suspend": True, "model": {"name": "a"}, "dataset": {"claim": "data"}},
        trainers={"night": {"data": "/data/n", "image": {"tag": "9"}, "suspend": False},
                  "day": {"data": "/data/d", "job": "shared", "model": {}},
                  "off": {"enabled": False}, "gone": None})
    jobs = {job.metadata.name.split("-")[-2]: job for job in objects.all("Job")}
    assert set(jobs) == {"night", "day"}
    mains = {name: main_container(job.spec.template) for name, job in jobs.items()}
    told = {name: (flags(main)["job"], flags(main)["data"], main.image.rpartition(":")[2],
                   jobs[name].spec.suspend, "model" in flags(main))
            for name, main in mains.items()}
    assert told == {"night": ("night", "/data/n", "9", False, True),
                    "day": ("shared", "/data/d", META["appVersion"], True, False)}
    for job in jobs.values():
        assert any((volume.persistentVolumeClaim or {}).get("claimName") == "data"
                   for volume in job.spec.template.spec.volumes)


def test_jobs_of_one_model_share_its_text() -> None:
    objects = chart.render_insecure(trainer={"data": "/d", "model": {"name": "a"}},
                                    trainers={"one": {}, "two": {}})
    assert len(objects.all("Job")) == 2
    assert len(objects.all("ConfigMap")) == len(
        chart.render_insecure(trainer={"data": "/d", "model": {"name": "a"}},
                              trainers={"one": {}}).all("ConfigMap"))


def test_monitors_are_made_only_where_the_operator_is() -> None:
    path = chart.ci_file("monitoring")
    assert not MONITORS & {item.kind for item in chart.render([path], apis=())}
    assert {item.kind for item in chart.render([path])} >= {"ServiceMonitor", "PrometheusRule"}


@pytest.mark.parametrize("secured", [
    {"insecure": True}, {"tls": {"enabled": True, "existingSecret": "s"}}], ids=["insecure", "tls"])
@pytest.mark.parametrize(("chosen", "expected"), [
    ({}, {}),
    ({"logFormat": "json"}, {"log-format": "json"}),
    ({"logLevel": "debug", "logFormat": "json"}, {"log-level": "debug", "log-format": "json"}),
])
def test_every_program_logs_as_it_is_told(
        secured: Any, chosen: dict[str, str], expected: dict[str, str]) -> None:
    trainer = {"enabled": True, "job": "run", "data": "/d"}
    objects = chart.render(overrides={**secured, **chosen, "trainer": trainer})
    for name, pod in objects.pods().items():
        given = flags(main_container(pod))
        assert {key: given[key] for key in given if key.startswith("log-")} == expected, name


def test_the_chart_depends_on_no_other_chart() -> None:
    assert "dependencies" not in META
    assert not (chart.CHART / "charts").exists()


def test_chart_yaml_has_what_a_catalogue_shows() -> None:
    assert (META["apiVersion"], META["type"]) == ("v2", "application")
    assert re.fullmatch(r"\d+\.\d+\.\d+", META["version"])
    for key in ("description", "sources", "maintainers", "annotations"):
        assert META[key], key


def test_the_change_log_describes_this_version() -> None:
    assert f"## {META['version']}" in (chart.CHART / "CHANGELOG.md").read_text()


def test_values_stand_in_the_usual_order() -> None:
    order = ORDER.split()
    values = chart.default_values()
    for where in (values, *(values[part] for part in ("shard", "coordinator", "trainer", "serve"))):
        places = [order.index(key) for key in where if key in order]
        assert places == sorted(places), list(where)


@pytest.mark.parametrize(
    ("more", "apis", "said", "unsaid"),
    [
        ({}, (), ["rel-dslide-coordinator.ns.svc:7000", "port-forward", "helm test",
                  "dslide status", "WARNING: insecure"], ["WARNING: persistence"]),
        ({"shard": {"persistence": {"enabled": False}}}, (), ["WARNING: persistence"],
         ["Predictions of"]),
        ({"shard": {"replicaCount": 1}, "serve": {"enabled": True, "model": "m"}}, (),
         [": 1 shard and a", 'Predictions of the model "m"', "rel-dslide-serve.ns.svc:7030"],
         ["7031"]),
        ({"serve": {"enabled": True, "model": "m", "http": {"enabled": True}},
          "trainer": {"enabled": True, "data": "/x", "job": "j", "replicaCount": 1}}, (),
         ["kubectl -n ns port-forward service/rel-dslide-serve 7031", '"j" with 1 trainer.'], []),
        ({"insecure": False, "tls": {"enabled": True, "existingSecret": "s"},
          "shard": {"durability": "log"}}, (), [], ["WARNING"]),
        ({"metrics": {"podMonitor": {"enabled": True}}}, (),
         ["Install the Prometheus operator"], []),
        ({"metrics": {"podMonitor": {"enabled": True}}}, (chart.MONITORING,), [],
         ["Install the Prometheus operator"]),
    ],
)
def test_notes_give_the_next_commands_and_warn(
        more: Any, apis: tuple[str, ...], said: list[str], unsaid: list[str]) -> None:
    text = chart.notes({"insecure": True, **more}, apis)
    assert [part for part in said if part not in text] == []
    assert [part for part in unsaid if part in text] == []
