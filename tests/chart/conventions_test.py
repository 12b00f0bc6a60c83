"""What operators expect of the servers of a chart like this, on what is rendered."""

from collections.abc import Iterator
from typing import Any

import chart
import pytest
from chart import Object, Objects, flags_of
from sentences import (
    Find,
    each_container,
    each_pod,
    each_server,
    environment,
    holds,
    mounts,
    of_values,
    sentences,
    shard_container,
    shard_of,
)

VERSION_LABELS = {"app.kubernetes.io/version", "helm.sh/chart"}
PATHS = {"startupProbe": "/livez", "readinessProbe": "/readyz", "livenessProbe": "/livez"}


def headless(objects: Objects) -> list[Object]:
    return [objects.one("Service", server.spec.serviceName) for server in objects.servers()]


def of_one_shard(objects: Objects) -> list[Object]:
    """Services that lead to one shard from outside."""
    return [service for service in objects.all("Service")
            if "apps.kubernetes.io/pod-index" in service.spec.selector]


def is_ours(item: Object) -> bool:
    return not item.metadata.name.endswith(("-extra", "-text"))


@sentences(
    ("selectors carry no version",
     lambda server: VERSION_LABELS & set(server.spec.selector.matchLabels), set()),
    ("volume claim templates carry no version and no common label",
     lambda server: all(claim.metadata.labels == server.spec.selector.matchLabels
                        for claim in server.spec.volumeClaimTemplates or []), True),
    ("selectors match the labels of their pods",
     lambda server: (server.spec.selector.matchLabels.items()
                     <= server.spec.template.metadata.labels.items()), True),
    ("pods are managed in parallel", lambda server: server.spec.podManagementPolicy, "Parallel"),
    ("a pod counts as available only after some seconds",
     lambda server: server.spec.minReadySeconds > 0, True),
    ("the data directory is not the root of its volume, where lost+found is",
     lambda server: (mounts(chart.main_container(server.spec.template))["data"],
                     flags_of(server)["data-dir"]), ("/var/lib/dslide", "/var/lib/dslide/data")),
)
def test_every_server(find: Find, expected: Any) -> None:
    holds(each_server(), find, expected)


@sentences(
    ("selectors of shards and coordinator differ",
     lambda objects: objects.shards().spec.selector != objects.coordinator().spec.selector, True),
    ("every object names chart, release and manager",
     lambda objects: {(item.metadata.labels["app.kubernetes.io/instance"],
                       item.metadata.labels["app.kubernetes.io/managed-by"],
                       item.metadata.labels["helm.sh/chart"].rpartition("-")[0])
                      for item in objects if is_ours(item)}, {(chart.RELEASE, "Helm", "dslide")}),
    ("the service of a set is its headless one",
     lambda objects: [service.spec.clusterIP for service in headless(objects)], ["None"] * 2),
    ("headless services publish addresses that are not ready",
     lambda objects: [service.spec.publishNotReadyAddresses for service in headless(objects)],
     [True] * 2),
    ("a shard gets its number from its place in the set",
     lambda objects: environment(shard_container(objects))["DSLIDE_SHARD_ID"].fieldRef.fieldPath,
     "metadata.labels['apps.kubernetes.io/pod-index']"),
    ("a shard advertises its own name in the headless service, or outside",
     lambda objects: flags_of(objects.shards())["advertise"].replace(".cluster.local", "")
     == ("shard-$(DSLIDE_SHARD_ID).dslide.example.com:7010" if of_one_shard(objects)
         else f"$(POD_NAME).{objects.shards().spec.serviceName}.ns.svc:7010"), True),
    ("the coordinator expects as many shards as there are pods",
     lambda objects: int(flags_of(objects.coordinator())["shards"])
     == objects.shards().spec.replicas, True),
    ("there is one coordinator", lambda objects: objects.coordinator().spec.replicas, 1),
    ("shards reach the coordinator even before it is ready",
     lambda objects: f"-0.{objects.coordinator().spec.serviceName}."
     in flags_of(objects.shards())["coordinator"], True),
    ("the number of shards is kept on the set",
     lambda objects: objects.shards().metadata.annotations["dslide/shards"]
     == str(objects.shards().spec.replicas), True),
    ("no service spreads calls over shards",
     lambda objects: {service.spec.clusterIP for service in objects.all("Service")
                      if service.spec.selector["app.kubernetes.io/component"] == "shard"
                      and service not in of_one_shard(objects)},
     {"None"}),
    ("target ports exist in the pods",
     lambda objects: [service.metadata.name for service in objects.all("Service")
                      for port in service.spec.ports
                      for pod in objects.pods().values()
                      if service.spec.selector.items() <= (pod.metadata.labels or {}).items()
                      and port.targetPort not in {
                          open.name for open in chart.main_container(pod).ports}], []),
    ("budgets cover exactly the shards, and the servers of predictions",
     lambda objects: [budget.metadata.name for budget in objects.all("PodDisruptionBudget")
                      if budget.spec.selector not in [
                          objects.shards().spec.selector,
                          *(server.spec.selector for server in objects.all("Deployment"))]], []),
    ("nothing scales but the servers of predictions",
     lambda objects: {scaler.spec.scaleTargetRef.kind
                      for scaler in objects.all("HorizontalPodAutoscaler")} - {"Deployment"},
     set()),
)
def test_every_release(find: Find, expected: Any) -> None:
    holds(chart.every_ci(), find, expected)


@sentences(
    ("they ask the admin port", lambda probe: probe[1].httpGet.port, "admin"),
    ("they need no certificate, so TLS does not change them",
     lambda probe: {"grpc", "exec"} & set(probe[1]) or probe[1].httpGet.scheme, None),
    ("liveness asks livez, readiness readyz",
     lambda probe: probe[1].httpGet.path == PATHS[probe[0]], True),
)
def test_every_probe(find: Find, expected: Any) -> None:
    def probes() -> Iterator[tuple[str, tuple[str, Object]]]:
        for place, server in each_server():
            container = chart.main_container(server.spec.template)
            yield from ((place, (kind, container[kind])) for kind in PATHS if kind in container)

    holds(probes(), find, expected)


@sentences(
    ("the program is the first process, without a shell",
     lambda container: container.command in (["dslide"], ["dslide-shard"], ["dslide-coordinator"]),
     True),
    ("no hook changes membership when a pod stops",
     lambda container: container.lifecycle, None),
)
def test_every_container(find: Find, expected: Any) -> None:
    holds(each_container(), find, expected)


@sentences(
    ("no grace period is zero", lambda pod: pod.spec.terminationGracePeriodSeconds > 0, True),
    ("pods carry no version, so a new chart alone restarts nothing",
     # Those of a hook are made anew in any case.
     lambda pod: "helm.sh/hook" in (pod.metadata.annotations or ())
     or not VERSION_LABELS & set(pod.metadata.labels), True),
)
def test_every_pod(find: Find, expected: Any) -> None:
    holds(each_pod(), find, expected)


@of_values(
    ("a shard may take ten minutes to restore its state", "minimal",
     lambda objects: (probe := shard_container(objects).startupProbe) is not None
     and probe.periodSeconds * probe.failureThreshold >= 600, True),
    ("shards spread over zones", "minimal",
     lambda objects: (spread := shard_of(objects).topologySpreadConstraints[0]) and
     (spread.topologyKey, spread.labelSelector == objects.shards().spec.selector),
     ("topology.kubernetes.io/zone", True)),
)
def test_values(values: str, find: Find, expected: Any) -> None:
    assert find(chart.render_ci(values)) == expected


@pytest.mark.parametrize("values", chart.CI_NAMES)
def test_ports_are_named_and_say_their_protocol(values: str) -> None:
    grpc = "grpc" if values in chart.SECURED else "kubernetes.io/h2c"
    # All other files of values have predictions by HTTP where they have any.
    http = {} if values == "external" else {"http": "http"}
    for service in chart.render_ci(values).all("Service"):
        protocols = {port.name: port.appProtocol for port in service.spec.ports}
        # The admin page is plain HTTP, for the cluster alone.
        inside = {"admin": "http"} if service.spec.type == "ClusterIP" else {}
        own = http if service.metadata.name.endswith("-serve") else {}
        assert protocols == {"grpc": grpc, **inside, **own}, service.metadata.name


@pytest.mark.parametrize("values", chart.CI_NAMES)
def test_the_grace_period_is_longer_than_drain_and_final_save(values: str) -> None:
    objects, given = chart.render_ci(values), chart.values_of(values)
    for part, server in (("shard", objects.shards()), ("coordinator", objects.coordinator())):
        grace = server.spec.template.spec.terminationGracePeriodSeconds
        assert grace >= sum(given[part]["drain"].values()), part


def test_common_labels_change_no_selector() -> None:
    plain, labelled = chart.render_insecure(), chart.render_insecure(commonLabels={"team": "a"})
    for one, other in zip(plain.servers(), labelled.servers()):
        assert one.spec.selector == other.spec.selector
        assert other.spec.template.metadata.labels.team == "a"


def test_names_fit_even_for_the_longest_release() -> None:
    # Kubernetes appends a hash, and to a Job's the index of the pod.
    longest = {"StatefulSet": 52, "Job": 57}
    objects = chart.render_insecure(
        fullnameOverride="x" * 60, serve={"enabled": True, "model": "m"}, trainer={"data": "/d"},
        trainers={"abcdefghijkl": {"dataset": {"claim": "c", "server": {"enabled": True}}}})
    assert {"Deployment", "Job", "StatefulSet"} <= {item.kind for item in objects}
    for item in objects:
        assert len(item.metadata.name) <= longest.get(item.kind, 63), item.kind


def checksums(objects: Objects) -> list[str]:
    return [server.spec.template.metadata.annotations["checksum/config"]
            for server in objects.servers()]


def test_a_changed_configuration_restarts_the_pods() -> None:
    one, other = (checksums(chart.render_insecure(shard={"config": {"max-clients": clients}}))
                  for clients in (10, 11))
    assert one[0] != other[0]
    assert one[1] == other[1]


def test_a_new_chart_version_alone_changes_no_checksum() -> None:
    both = checksums(chart.render_ci("minimal")) + checksums(chart.render_ci("openshift"))
    assert len(set(both)) == 1


SMALL = {"context-budget": "64MiB", "reply-budget": "32MiB", "queue-budget": "32MiB",
         "bulk-budget": 134217728}


@pytest.mark.parametrize(
    ("limit", "shard", "budget"),
    [
        # Nine tenths of the limit, less the other budgets.
        ("10Gi", {}, "7296MiB"),
        ("4.5Gi", {}, "2675MiB"),
        ("8000M", {}, "5017MiB"),
        (4 << 30, {}, "2278MiB"),
        ("512Mi", {}, "284MiB"),
        ("1Gi", {"config": SMALL}, "665MiB"),
        ("10Gi", {"memoryBudget": "3GiB"}, "3GiB"),
        # The program chooses.
        (None, {}, None),
    ],
)
def test_rows_may_take_what_the_memory_limit_leaves(limit: Any, shard: Any, budget: Any) -> None:
    limits = {"memory": limit} if limit else None
    objects = chart.render_insecure(shard={"resources": {"limits": limits}, **shard})
    assert flags_of(objects.shards()).get("memory-budget") == budget


def test_large_numbers_of_the_configuration_are_written_in_full() -> None:
    objects = chart.render_insecure(shard={"config": {"max-clients": 5000000}})
    settings = objects.one("ConfigMap", "-shard").data["dslide.conf"]
    assert 'max-clients = "5000000"' in settings
