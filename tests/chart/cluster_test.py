"""The rendered cluster runs: its containers' command lines as processes of this machine.

Addresses become ports of the loopback interface and paths move into a scratch folder; everything
else, the probes included, is as rendered. What this cannot show: scheduling, volumes, DNS and
kubelets.
"""

import functools
import pathlib
import re
import tempfile
from collections.abc import Callable
from typing import Any

import chart
import pods
import processes
import pytest
from chart import Object, Objects, main_container
from processes import Finished, Process, Programs, free_port, wait_until

PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
# The files of a Secret.
Files = dict[str, bytes]


def project(files: Files, target: pathlib.Path) -> None:
    """Mounts a Secret's files as the kubelet does: names are links through one link, which an
    update swaps."""
    target.mkdir(parents=True, exist_ok=True)
    content = pathlib.Path(tempfile.mkdtemp(prefix="..", dir=target))
    for name, data in files.items():
        (content / name).write_bytes(data)
        (content / name).chmod(0o600)
    (target / "..data_tmp").symlink_to(content.name)
    (target / "..data_tmp").rename(target / "..data")
    for name in files:
        if not (target / name).is_symlink():
            (target / name).symlink_to(f"..data/{name}")


class Cluster:
    """Processes of a rendered release, below the folder of `programs`."""

    def __init__(self, objects: Objects, programs: Programs, secrets: dict[str, Files]) -> None:
        self.objects, self.programs, self.secrets = objects, programs, secrets
        self.folder = programs.directory / "pods"
        self.mounted: dict[str, set[pathlib.Path]] = {name: set() for name in secrets}
        # {pod: its server}, and {pod: (port of gRPC, port of the admin pages)}
        self.servers = {f"{server.metadata.name}-{index}": server
                        for server in [*objects.servers(), *objects.all("Deployment")]
                        for index in range(server.spec.replicas)}
        self.ports = {name: (free_port(), free_port()) for name in self.servers}
        self.processes: dict[str, Process] = {}

    def local(self, word: str, pod_name: str) -> str:
        """A word of a command line with the addresses of the cluster replaced by this machine's."""
        grpc, admin = self.ports.get(pod_name, (0, 0))
        word = re.sub(r"0\.0\.0\.0:(7000|7010|7040)$", f"127.0.0.1:{grpc}", word)
        word = re.sub(r"0\.0\.0\.0:(7001|7011|7021|7041)$", f"127.0.0.1:{admin}", word)

        def address(match: re.Match[str]) -> str:
            # The coordinator's services have one pod behind them.
            ports = (self.ports.get(match[1])
                     or self.ports[f"{match[1].removesuffix('-headless')}-0"])
            return f"127.0.0.1:{ports[match[2] in ('7001', '7011', '7041')]}"

        return re.sub(r"\b([a-z0-9-]+)(?:\.[a-z0-9-]+)?\.ns\.svc:(\d+)\b", address, word)

    def start(self, pod: Object, container: Object, pod_name: str) -> Process:
        env = pods.environment(container, pod_name)
        root = self.folder / pod_name
        pods.write_files(self.objects, pod, root)
        for path in ("var/lib/dslide", "tmp", "data"):
            (root / path).mkdir(parents=True, exist_ok=True)
        self.mount_secrets(pod, container, root)
        words = [pods.in_folder(self.local(pods.expand(word, env), pod_name), root)
                 for word in container.args]
        env = {name: pods.in_folder(value, root) for name, value in env.items()}
        return self.programs.start(container.command[0], *words,
                                   environment={"TMPDIR": str(root / "tmp"), **env})

    def mount_secrets(self, pod: Object, container: Object, root: pathlib.Path) -> None:
        names = {item.name: item.secret.secretName for item in pod.spec.volumes if item.secret}
        for mount in container.volumeMounts or []:
            secret = names.get(mount.name, "")
            if secret in self.secrets:
                target = pathlib.Path(f"{root}{mount.mountPath}")
                self.mounted[secret].add(target)
                project(self.secrets[secret], target)

    def update_secret(self, name: str, files: Files) -> None:
        """Other files in a Secret; they arrive in the pods that have it mounted."""
        self.secrets[name] = files
        for target in self.mounted[name]:
            project(files, target)

    def run(self, pod: Object, container: Object, pod_name: str) -> Finished:
        """A container that ends."""
        return self.start(pod, container, pod_name).finish()

    def prepare(self, pod: Object, pod_name: str) -> None:
        """Runs the init containers of the pod."""
        for container in pod.spec.initContainers or []:
            processes.assert_ended(self.run(pod, container, pod_name), 0)

    def probe(self, pod_name: str, kind: str) -> int:
        """The status with which the pod answers a probe; 0 while it does not answer."""
        container = main_container(self.servers[pod_name].spec.template)
        request = container[kind].httpGet
        place = [port.name for port in container.ports].index(request.port)
        return processes.look_at(f"127.0.0.1:{self.ports[pod_name][place]}", request.path)[0]

    def start_servers(self) -> None:
        for name, server in self.servers.items():
            pod = server.spec.template
            self.prepare(pod, name)
            self.processes[name] = self.start(pod, main_container(pod), name)
        for name, process in self.processes.items():
            wait_until(functools.partial(self.is_ready, name), lambda: "it is ready", [process])

    def is_ready(self, pod_name: str) -> bool:
        return self.probe(pod_name, "readinessProbe") == 200

    def test_pod(self) -> tuple[Object, Object]:
        """The pod of helm test, and its container that asks for the status."""
        pod = self.objects.one("Pod")
        return pod, next(item for item in pod.spec.initContainers if item.name == "status")


def start(values: str, programs: Programs, secrets: dict[str, Files], **more: Any) -> Cluster:
    # A short delay in place of the default: what is waited for is counted in another test.
    objects = chart.render([chart.ci_file(values)], {"shard": {"drain": {"delay": 1}}, **more})
    cluster = Cluster(objects, programs, secrets)
    cluster.start_servers()
    return cluster


def every_probe_of_every_server_is_answered(cluster: Cluster) -> None:
    for name in cluster.servers:
        assert [cluster.probe(name, kind) for kind in PROBES] == [200] * 3, name


def shards_have_the_numbers_of_their_pods(cluster: Cluster) -> None:
    done = cluster.run(*cluster.test_pod(), "test-status")
    processes.assert_ended(done, 0)
    for index in range(2):
        grpc, _ = cluster.ports[f"{cluster.objects.shards().metadata.name}-{index}"]
        assert re.search(rf"(?m)^ +{index} +127\.0\.0\.1:{grpc} ", done.stdout), done


def the_pod_of_helm_test_succeeds_twice(cluster: Cluster) -> None:
    pod, _ = cluster.test_pod()
    for attempt in ("a", "b"):
        for container in [*pod.spec.initContainers, *pod.spec.containers]:
            processes.assert_ended(cluster.run(pod, container, f"test-{attempt}"), 0)


def the_trainers_of_the_job_train_together(
        cluster: Cluster, bring_data: Callable[[Object, str], None]) -> None:
    job = cluster.objects.one("Job").spec
    names = [f"trainer-{index}" for index in range(job.completions)]
    for name in names:
        cluster.ports[name] = (free_port(), free_port())
        bring_data(job.template, name)
    trainers = [cluster.start(job.template, main_container(job.template), name) for name in names]
    for trainer in trainers:
        done = trainer.finish()
        processes.assert_ended(done, 0)
        assert "Trained" in done.stdout, done


def servers_stop_in_good_order(cluster: Cluster) -> None:
    # In a grace period that is the sum of what they may take: conventions_test.py.
    for process in cluster.processes.values():
        process.send(15)
    for process in cluster.processes.values():
        processes.assert_ended(process.finish(), 0)


@pytest.mark.usefixtures("bin_dir")
def test_a_release_in_plaintext_runs(programs: Programs) -> None:
    cluster = start("trainer", programs, {})
    every_probe_of_every_server_is_answered(cluster)
    shards_have_the_numbers_of_their_pods(cluster)
    the_pod_of_helm_test_succeeds_twice(cluster)
    the_trainers_of_the_job_train_together(cluster, cluster.prepare)
    servers_stop_in_good_order(cluster)


@pytest.mark.usefixtures("bin_dir")
def test_trainers_without_data_have_it_from_their_server(programs: Programs) -> None:
    server = {"enabled": True, "drain": {"delay": 1, "timeout": 5}}
    cluster = start("trainer", programs, {}, trainer={"dataset": {"server": server}})
    every_probe_of_every_server_is_answered(cluster)
    the_trainers_of_the_job_train_together(cluster, cluster.prepare)
    assert not list(cluster.folder.glob("trainer-*/data/*"))
    servers_stop_in_good_order(cluster)


def revoke(certificates: pathlib.Path, role: str) -> Files:
    """The authority's lists after the role's certificate was revoked."""
    pods.run_certs("revoke", "--from", certificates, certificates / f"{role}.crt")
    return {path.name: path.read_bytes() for path in (certificates / "crl").iterdir()}


def a_client_without_a_certificate_is_refused(cluster: Cluster) -> None:
    port, _ = cluster.ports[f"{cluster.objects.coordinator().metadata.name}-0"]
    done = cluster.programs.run_dslide("--timeout=10s", "status", "--cluster", f"127.0.0.1:{port}")
    assert done.code != 0


def running_servers_follow_a_list_that_is_added_to_the_secret(
        cluster: Cluster, certificates: pathlib.Path) -> None:
    pod, status = cluster.test_pod()
    processes.assert_ended(cluster.run(pod, status, "test-known"), 0)
    lists = revoke(certificates, "operator")
    assert sorted(name.partition(".")[2] for name in lists) == ["r0", "r1"]
    cluster.update_secret("dslide-crl", lists)
    status["args"] = [word.replace("--timeout=60s", "--timeout=10s") for word in status.args]
    assert cluster.run(pod, status, "test-revoked").code != 0
    # The others are served as before.
    for container in (pod.spec.initContainers[-1], pod.spec.containers[0]):
        processes.assert_ended(cluster.run(pod, container, "test-others"), 0)


@pytest.mark.usefixtures("bin_dir")
def test_a_release_with_a_certificate_for_each_role_runs(programs: Programs) -> None:
    certificates = programs.directory / "certs"
    pods.run_certs("dev", "--output", certificates, "--cluster", "prod", "--host", "127.0.0.1")
    # Under the names of ci/tls-values.yaml.
    secrets = {f"dslide-{role}-tls": pods.tls_files(certificates, role)
               for role in ("shard", "coordinator", "trainer", "operator")}
    cluster = start("tls", programs, {"dslide-crl": revoke(certificates, "reader"), **secrets})

    def bring_data(_: Object, name: str) -> None:
        """What the user of these values does."""
        target = cluster.folder / name / "data" / "train.txt"
        target.parent.mkdir(parents=True)
        processes.assert_ended(programs.run_dslide(
            "data", "gen", "--output", target, "--points=2000", "--features=500", "--labels=200"),
            0)

    every_probe_of_every_server_is_answered(cluster)
    shards_have_the_numbers_of_their_pods(cluster)
    a_client_without_a_certificate_is_refused(cluster)
    the_pod_of_helm_test_succeeds_twice(cluster)
    running_servers_follow_a_list_that_is_added_to_the_secret(cluster, certificates)
    the_trainers_of_the_job_train_together(cluster, bring_data)
    servers_stop_in_good_order(cluster)
