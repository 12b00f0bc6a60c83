"""A server of data has what trainers have without one, and they have its address."""

from typing import Any

import chart
import pytest
from chart import Object, Objects, flags, main_container
from sentences import Find, environment, of_values

BUCKET = {"data": "s3://b/train.txt", "eval": "s3://b/test.txt", "dataset": {
    "existingSecret": "keys", "cacheClaim": "cache", "cacheSize": "1GiB", "patience": "5m"}}
# What trainers may say of their data.
SOURCES: dict[str, Any] = {
    "claim": {"data": "/data/a.txt", "dataset": {"claim": "set"}},
    "image": {"data": "/data/a.txt", "eval": "/data/b.txt", "dataset": {"image": "set:1"}},
    "generated": {"dataset": {"generate": {"points": 50}}},
    "generated with points to test": {"dataset": {"generate": {"points": 50, "evalPoints": 5}}},
    "bucket": BUCKET,
}
# In the pods of every component.
COMMON = {"tmp", "tls"}


def trained(source: Any, server: Any) -> Objects:
    """The release whose trainers have that source, with that dataset.server."""
    dataset = source.get("dataset", {}) | {"server": server}
    return chart.render_insecure(
        trainer={"enabled": True, "job": "run", **source, "dataset": dataset})


def pod_of(objects: Objects, kind: str, part: str = "") -> Object:
    """The template of the one object of a kind whose name has the part."""
    found: Object = next(item for item in objects.all(kind) if part in item.metadata.name)
    return Object(found.spec.template)


def of_data(pod: Object) -> dict[str, Any]:
    """All in a pod that says what data there is and opens it."""
    main = main_container(pod)
    return {
        "volumes": [item for item in pod.spec.volumes if item.name not in COMMON],
        "mounts": [item for item in main.volumeMounts if item.name not in COMMON],
        "generators": [(item.name, item.args, item.volumeMounts)
                       for item in pod.spec.initContainers or []],
        "variables": {name: value for name, value in environment(main).items()
                      if name.startswith("DSLIDE_DATA")},
        "secrets": main.envFrom,
        "sources": {name: flags(main).get(name) for name in ("data", "eval")},
    }


@pytest.mark.parametrize("name", SOURCES)
def test_the_server_has_what_trainers_have_without_one(name: str) -> None:
    without, served = (trained(SOURCES[name], {"enabled": on}) for on in (False, True))
    assert without.all("Deployment") == []
    expected = of_data(pod_of(without, "Job"))
    assert any(expected.values())
    assert of_data(pod_of(served, "Deployment")) == expected


@pytest.mark.parametrize("name", SOURCES)
def test_trainers_have_the_address_of_the_server_and_no_volume(name: str) -> None:
    tested = of_data(pod_of(trained(SOURCES[name], {"enabled": False}), "Job"))["sources"]["eval"]
    url = "grpc://rel-dslide-data.ns.svc:7040"
    assert of_data(pod_of(trained(SOURCES[name], {"enabled": True}), "Job")) == {
        "volumes": [], "mounts": [], "generators": [], "variables": {}, "secrets": None,
        "sources": {"data": f"{url}/data", "eval": f"{url}/eval" if tested else None}}


def test_nothing_else_of_the_trainers_changes() -> None:
    trainer = {"podAnnotations": {"a": "b"}, "model": {"name": "a"}, "suspend": False,
               "extraEnvFrom": [{"secretRef": {"name": "own"}}],
               "extraVolumes": [{"name": "v", "emptyDir": {}}]}
    jobs = [trained({"data": "/a", **trainer}, {"enabled": on}).one("Job") for on in (False, True)]
    for job in jobs:
        main = main_container(job.spec.template)
        main["args"] = [word for word in main.args if not word.startswith("--data=")]
        del job.metadata["name"]
    del jobs[1].spec.template.metadata["annotations"]["checksum/data"]
    assert jobs[0] == jobs[1]


@pytest.mark.parametrize(("changed", "another"), [
    ({"data": "s3://b/other.txt"}, True),
    ({"dataset": {"server": {"enabled": True, "extraArgs": ["--text-column=title"]}}}, True),
    ({"dataset": {"server": {"enabled": True, "nodeSelector": {"pool": "data"}}}}, False),
], ids=str)
def test_trainers_are_replaced_when_their_server_has_other_data(
        changed: dict[str, Any], another: bool) -> None:
    trainer = {"enabled": True, "job": "run", "data": "s3://b/a.txt",
               "dataset": {"server": {"enabled": True}}}
    names = [chart.render_insecure(trainer=trainer | more).one("Job").metadata.name
             for more in ({}, changed)]
    assert (names[0] != names[1]) == another


def test_a_job_of_trainers_has_its_own_server_with_the_defaults_of_all() -> None:
    shared = {"nodeSelector": {"pool": "data"}, "priorityClassName": "high"}
    objects = chart.render_insecure(
        trainer={"data": "/data/a.txt", "dataset": {"claim": "set", "server": shared}},
        trainers={"night": {"dataset": {"server": {"enabled": True}}},
                  "day": {"dataset": {"server": {"enabled": True, "priorityClassName": "low"}}},
                  "alone": {}})
    assert [item.metadata.name for item in objects.all("Deployment")] == [
        "rel-dslide-data-day", "rel-dslide-data-night"]
    for name, priority in (("night", "high"), ("day", "low")):
        pod = pod_of(objects, "Deployment", name)
        assert (pod.spec.nodeSelector.pool, pod.spec.priorityClassName) == ("data", priority)
        assert main_container(pod).ports[0].containerPort == 7040
        assert of_data(pod_of(objects, "Job", name))["sources"]["data"] == \
            f"grpc://rel-dslide-data-{name}.ns.svc:7040/data"
    assert of_data(pod_of(objects, "Job", "alone"))["sources"]["data"] == "/data/a.txt"


def test_each_server_is_reached_by_a_service_that_selects_it_alone() -> None:
    objects = chart.render_ci("data-server")
    pods = {owner: pod.metadata.labels.items() for owner, pod in objects.pods().items()}
    for server in objects.all("Deployment"):
        name = server.metadata.name
        selected = objects.one("Service", name).spec.selector
        assert selected == server.spec.selector.matchLabels
        assert [owner for owner, labels in pods.items() if selected.items() <= labels] == [
            f"Deployment {name}"]


@pytest.mark.parametrize(("source", "strategy"), [
    ({"data": "s3://b/a"}, None),
    ({"data": "/data/a", "dataset": {"image": "set:1"}}, None),
    ({"data": "s3://b/a", "dataset": {"cacheClaim": "cache"}}, {"type": "Recreate"}),
    ({"data": "/data/a", "dataset": {"claim": "set"}}, {"type": "Recreate"}),
], ids=str)
def test_a_claim_of_one_node_never_waits_for_two_pods(source: Any, strategy: Any) -> None:
    assert trained(source, {"enabled": True}).one("Deployment").spec.strategy == strategy


def test_the_address_has_the_domain_and_the_port_that_were_chosen() -> None:
    ports = {"service": {"ports": {"grpc": 9000}}}
    objects = chart.render_insecure(
        clusterDomain="cluster.local", fullnameOverride="x" * 60,
        trainers={"abcdefghijkl": {"data": "s3://b/a", "dataset": {"server": {"enabled": True}}}},
        trainer={"dataset": {"server": ports}})
    name = f"{'x' * 40}-data-abcdefghijkl"
    assert [port.port for port in objects.one("Service", name).spec.ports] == [9000, 7041]
    assert of_data(pod_of(objects, "Job"))["sources"]["data"] == \
        f"grpc://{name}.ns.svc.cluster.local:9000/data"
    assert len(name) <= 63


def test_notes_say_how_to_wait_for_it() -> None:
    text = chart.notes({"insecure": True, "trainer": {
        "enabled": True, "job": "run", **BUCKET,
        "dataset": {"server": {"enabled": True}}}})
    assert "rollout status deployment/rel-dslide-data\n" in text


def policy(objects: Objects, part: str) -> Object:
    spec: Object = objects.one("NetworkPolicy", f"-{part}").spec
    return spec


def opened(rule: Object, end: str) -> tuple[list[int], list[str | None]]:
    """(ports, components) of a rule's end, `from` or `to`."""
    return ([port.port for port in rule.ports],
            [(peer.podSelector or Object(matchLabels={})).matchLabels.get(
                "app.kubernetes.io/component") for peer in rule.get(end, [])])


@of_values(
    ("trainers alone may call it", "data-server",
     lambda objects: [opened(rule, "from") for rule in policy(objects, "data").ingress],
     [([7040], ["trainer"]), ([7041], ["test", None])]),
    ("it calls names and the store, nothing of the release", "data-server",
     lambda objects: [[port.port for port in rule.ports]
                      for rule in policy(objects, "data").egress], [[53, 53], [443]]),
    ("trainers may call it", "data-server",
     lambda objects: ([7040], ["data"]) in [
         opened(rule, "to") for rule in policy(objects, "trainer").egress], True),
    ("its certificate lets it read only, and has the names that trainers call", "data-server",
     lambda objects: (found := objects.one("Certificate", "-data").spec) and
     (found.uris, [name in found.dnsNames for name in (
         flags(main_container(job.spec.template))["data"].split("/")[2].partition(":")[0]
         for job in objects.all("Job"))]), (["dslide://dslide/reader"], [True, True])),
    ("it is watched", "data-server",
     lambda objects: "data" in objects.one(
         "PodMonitor").spec.selector.matchExpressions[0]["values"], True),
    ("no probe that restarts it depends on how long reading takes", "data-server",
     lambda objects: {main_container(server.spec.template)[kind].httpGet.path
                      for server in objects.all("Deployment")
                      for kind in ("startupProbe", "livenessProbe")}, {"/livez"}),
    ("nor is a long reading a rollout that failed", "data-server",
     lambda objects: {server.spec.progressDeadlineSeconds
                      for server in objects.all("Deployment")}, {86400}),
    ("it has the rights and the image of its trainers", "data-server",
     lambda objects: {(pod.spec.serviceAccountName, main_container(pod).image)
                      for owner, pod in objects.pods().items()
                      if owner.startswith(("Deployment", "Job"))},
     {("bucket-reader", "dslide:0.3.0")}),
)
def test_values(values: str, find: Find, expected: Any) -> None:
    assert find(chart.render_ci(values)) == expected


def test_it_has_a_certificate_of_its_own() -> None:
    secrets = {part: f"{part}-tls" for part in ("shard", "coordinator", "trainer", "operator",
                                                "data")}
    objects = chart.render(overrides={
        "tls": {"enabled": True, "existingSecrets": secrets},
        "trainer": {"enabled": True, "job": "run", "data": "s3://b/a",
                    "dataset": {"server": {"enabled": True}}}})
    volumes = pod_of(objects, "Deployment").spec.volumes
    assert [item.secret.secretName for item in volumes if item.secret] == ["data-tls"]
