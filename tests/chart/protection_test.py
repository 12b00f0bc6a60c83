"""Rights, certificates and networks of the pods, on what is rendered."""

from collections.abc import Iterator
from typing import Any

import chart
import pytest
from chart import Object, Objects, containers_of, flags, flags_of
from sentences import (
    Find,
    components,
    each_container,
    each_pod,
    each_server,
    environment,
    holds,
    mounts,
    of_values,
    sentences,
)

RIGHTS = {"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding", "Secret"}
USERS = {"runAsUser", "runAsGroup", "fsGroup"}
CRL_MOUNT = {"name": "crl", "mountPath": "/etc/dslide/crl", "readOnly": True}
# The objects of extra-objects and containers of these values are the user's.
OURS = [name for name in chart.CI_NAMES if name != "passthrough"]


@sentences(
    ("it satisfies the restricted pod security standard",
     lambda container: (context := container.securityContext) and
     (context.runAsNonRoot, context.allowPrivilegeEscalation, context.capabilities),
     (True, False, {"drop": ["ALL"]})),
    ("its root file system is read-only",
     lambda container: container.securityContext.readOnlyRootFilesystem, True),
    ("its image is our own",
     lambda container: container.image.rpartition("/")[2].replace("@", ":").split(":")[0]
     in ("dslide", "dslide-example"), True),
)
def test_every_container(find: Find, expected: Any) -> None:
    holds(each_container(), find, expected)


@sentences(
    ("it satisfies the restricted pod security standard",
     lambda pod: pod.spec.securityContext.seccompProfile, {"type": "RuntimeDefault"}),
    ("/tmp is writable",
     lambda pod: (mounts(chart.main_container(pod))["tmp"],
                  any(volume["name"] == "tmp" and "emptyDir" in volume
                      for volume in pod.spec.volumes)), ("/tmp", True)),
    ("it gets no token of the Kubernetes API",
     lambda pod: pod.spec.automountServiceAccountToken, False),
    # A service named dslide-... would set variables DSLIDE_..., which the programs read.
    ("no service of the namespace leaks into the environment",
     lambda pod: pod.spec.enableServiceLinks, False),
)
def test_every_pod(find: Find, expected: Any) -> None:
    holds(each_pod(), find, expected)


def test_volumes_are_handed_over_by_fs_group_only_where_needed() -> None:
    holds(each_server(), lambda server: server.spec.template.spec.securityContext
          .fsGroupChangePolicy, "OnRootMismatch")


@pytest.mark.parametrize("values", [name for name in chart.CI_NAMES if name != "openshift"])
def test_containers_run_as_a_numeric_user_that_is_not_root(values: str) -> None:
    for owner, pod in chart.render_ci(values).pods().items():
        for context in (pod.spec.securityContext, chart.main_container(pod).securityContext):
            assert context.runAsUser == 10001, owner


def test_users_can_be_left_to_the_platform() -> None:
    for owner, pod in chart.render_ci("openshift").pods().items():
        for context in (pod.spec.securityContext, chart.main_container(pod).securityContext):
            assert not USERS & set(context), owner
            assert context.runAsNonRoot is True, owner


@pytest.mark.parametrize("values", OURS)
def test_the_chart_makes_no_right_no_secret_and_no_init_container_of_servers(values: str) -> None:
    objects = chart.render_ci(values)
    assert not RIGHTS & {item.kind for item in objects}
    for server in objects.servers():
        assert "initContainers" not in server.spec.template.spec


@pytest.mark.parametrize("values", chart.CI_NAMES)
def test_plaintext_needs_a_value_that_says_insecure(values: str) -> None:
    for server in chart.render_ci(values).servers():
        given = flags_of(server)
        assert ("insecure" in given) == (values not in chart.SECURED)
        assert ("insecure" in given) != ("tls-ca" in given)


@pytest.mark.parametrize("values", ["tls", "production"])
def test_certificates_are_mounted_as_a_folder_so_that_rotation_arrives(values: str) -> None:
    for owner, pod in chart.render_ci(values).pods().items():
        if not owner.startswith("Pod "):
            found = [mount for mount in chart.main_container(pod).volumeMounts
                     if mount.name == "tls"]
            assert found == [{"name": "tls", "mountPath": "/etc/dslide/tls", "readOnly": True}]


def secrets(objects: Objects) -> dict[str, list[Object]]:
    """{part: the secrets of its pods}."""
    return {pod.metadata.labels["app.kubernetes.io/component"]:
            [volume.secret for volume in pod.spec.volumes if volume.secret]
            for pod in objects.pods().values()}


@of_values(
    ("the service account gets no token of the Kubernetes API", "minimal",
     lambda objects: objects.one("ServiceAccount").automountServiceAccountToken, False),
    ("each part uses its own certificate", "tls",
     lambda objects: {part: {secret.secretName for secret in found} - {"dslide-crl"}
                      for part, found in secrets(objects).items()},
     {"shard": {"dslide-shard-tls"}, "coordinator": {"dslide-coordinator-tls"},
      "trainer": {"dslide-trainer-tls"}, "test": {"dslide-operator-tls", "dslide-trainer-tls"}}),
    ("keys are not readable by others", "tls",
     lambda objects: {secret.defaultMode & 0o007 for found in secrets(objects).values()
                      for secret in found}, {0}),
    ("certificates of shards cover every pod of the headless service", "production",
     lambda objects: {f"*.rel-dslide-shard-headless.ns.svc{end}" for end in ("", ".cluster.local")}
     <= set(objects.one("Certificate", "-shard").spec.dnsNames), True),
    ("each certificate names its role", "production",
     lambda objects: all(
         item.spec.uris
         == [f"dslide://dslide/{item.metadata.labels['app.kubernetes.io/component']}"]
         for item in objects.all("Certificate")), True),
    ("certificates are good for both ends of a connection", "production",
     lambda objects: all({"server auth", "client auth"} <= set(item.spec.usages)
                         for item in objects.all("Certificate")), True),
    ("network policies cover every part", "production",
     lambda objects: components(objects.all("NetworkPolicy")),
     ["coordinator", "shard", "test", "trainer"]),
    ("network policies deny what they do not name", "production",
     lambda objects: all(item.spec.policyTypes == ["Ingress", "Egress"] and rule["from"]
                         and rule.ports for item in objects.all("NetworkPolicy")
                         for rule in item.spec.ingress), True),
    ("gRPC is open to the release and to named clients", "production",
     lambda objects: (rule := objects.one("NetworkPolicy", "-shard").spec.ingress[0]) and
     ([port.port for port in rule.ports],
      {"podSelector": {"matchLabels": {"dslide-client": "true"}}} in rule["from"]),
     ([7010], True)),
    ("metrics are open to the monitoring namespace", "production",
     lambda objects: (rule := objects.one("NetworkPolicy", "-shard").spec.ingress[1]) and
     ([port.port for port in rule.ports],
      {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
      in rule["from"]), ([7011], True)),
    ("pods may ask DNS and their peers", "production",
     lambda objects: [{port.port for port in rule.ports}
                      for rule in objects.one("NetworkPolicy", "-shard").spec.egress][:2],
     [{53}, {7000, 7001, 7010, 7011}]),
)
def test_values(values: str, find: Find, expected: Any) -> None:
    assert find(chart.render_ci(values)) == expected


def test_every_address_in_a_flag_is_covered_by_the_certificate_behind_it() -> None:
    objects = chart.render_ci("production")
    covered = [name for item in objects.all("Certificate") for name in item.spec.dnsNames or []]
    shard = flags_of(objects.shards())
    for address in (shard["coordinator"],
                    shard["advertise"].replace("$(POD_NAME)", "rel-dslide-shard-0")):
        host = address.rpartition(":")[0]
        assert {host, f"*.{host.partition('.')[2]}"} & set(covered), host


def readers(objects: Objects) -> Iterator[tuple[Object, Object, Any]]:
    """(pod, container, where it looks for lists or None) of everything that talks over TLS."""
    for pod in objects.pods().values():
        for container in containers_of(pod):
            if "/etc/dslide/tls" in mounts(container).values():
                named = environment(container).get("DSLIDE_TLS_CRL_DIR")
                yield pod, container, flags(container).get("tls-crl-dir", named)


LISTS = {"tls": {"enabled": True, "existingSecret": "s", "crl": {"configMap": "lists"}}}


@pytest.mark.parametrize(
    ("values", "overrides", "source", "names"),
    [
        (["tls"], None, {"secret": {"secretName": "dslide-crl", "defaultMode": 0o440}},
         ["coordinator", "shard", "status", "train", "trainer"]),
        ([], LISTS, {"configMap": {"name": "lists"}}, ["coordinator", "shard", "status", "train"]),
    ],
)
def test_whoever_checks_certificates_has_the_lists_of_revoked_ones(
        values: list[str], overrides: Any, source: Any, names: list[str]) -> None:
    found = list(readers(chart.render(map(chart.ci_file, values), overrides)))
    assert sorted(container.name for _, container, _ in found) == names
    for pod, container, directory in found:
        assert directory == "/etc/dslide/crl", container.name
        # Without subPath: what is added to the source arrives in pods that run.
        assert [item for item in container.volumeMounts if item.name == "crl"] == [CRL_MOUNT]
        assert {"name": "crl", **source} in pod.spec.volumes


def test_without_lists_nothing_speaks_of_them() -> None:
    found = list(readers(chart.render_ci("production")))
    assert len(found) >= 4
    for pod, container, directory in found:
        assert directory is None, container.name
        assert "crl" not in [volume.name for volume in pod.spec.volumes]
