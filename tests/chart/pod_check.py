"""The rendered pods run under a real container engine, at the addresses that the chart gives them.

Needs an engine that `docker` reaches (DOCKER_HOST), and root to hand over volumes like a kubelet.
The image is made here, of the programs and the libraries that they load and nothing else: no shell,
no package, so that what runs is what the chart asks for. It is removed at the end. Part of
./run chart.
"""

import contextlib
import functools
import os
import pathlib
import re
import subprocess
import tarfile
import uuid
from collections.abc import Iterator

import chart
import pods
import pytest
from chart import Object, Objects, main_container
from processes import PATIENCE_SECONDS, wait_until

PROGRAMS = ("dslide", "dslide-shard", "dslide-coordinator")


def docker(*words: str | pathlib.Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(["docker", *words], capture_output=True, text=True,
                          timeout=PATIENCE_SECONDS)
    assert not check or done.returncode == 0, f"docker {words}: {done.stdout}{done.stderr}"
    return done


def libraries(program: pathlib.Path) -> set[str]:
    """Files that the program loads, the loader included."""
    shown = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"(/\S+) \(0x", shown))


def make_image(bin_dir: pathlib.Path, archive: pathlib.Path, tag: str) -> None:
    with tarfile.open(archive, "w", dereference=True) as tar:
        for name in PROGRAMS:
            tar.add(bin_dir / name, f"usr/bin/{name}")
        for path in sorted(set().union(*(libraries(bin_dir / name) for name in PROGRAMS))):
            tar.add(path, path.lstrip("/"))
    docker("import", "--change", "ENV PATH=/usr/bin", archive, tag)


class Pods:
    """Pods of one rendered release in a network of their own."""

    def __init__(self, objects: Objects, folder: pathlib.Path, name: str) -> None:
        self.objects, self.folder, self.name = objects, folder, name
        self.image = f"{name}:1"

    def volume(self, pod_name: str, name: str, group: int) -> pathlib.Path:
        """A folder handed over as a volume with fsGroup is."""
        path = self.folder / pod_name / name
        path.mkdir(parents=True, exist_ok=True)
        os.chown(path, 0, group)
        path.chmod(0o2775)
        if name == "data":
            # As on a fresh file system, and not handed over.
            (path / "lost+found").mkdir(mode=0o700, exist_ok=True)
        return path

    def mounts(self, pod: Object, container: Object, pod_name: str) -> Iterator[str]:
        maps = {item.name: item.configMap.name for item in pod.spec.volumes if item.configMap}
        for mount in container.volumeMounts or []:
            source = self.volume(pod_name, mount.name, pod.spec.securityContext.fsGroup)
            if mount.name in maps:
                for name, text in self.objects.one("ConfigMap", maps[mount.name]).data.items():
                    (source / name).write_text(text)
            yield f"{source}:{mount.mountPath}:{'ro' if mount.readOnly else 'rw'}"

    def command(self, pod: Object, container: Object, pod_name: str,
                aliases: list[str]) -> list[str]:
        """Arguments of `docker run` for a container, by its own and its pod's security contexts."""
        own, shared = container.securityContext, pod.spec.securityContext
        env = pods.environment(container, pod_name)
        memory = re.sub("i$", "", container.resources.limits.memory).lower()
        words = ["--network", self.name, "--user", f"{own.runAsUser}:{shared.runAsGroup}",
                 "--group-add", str(shared.fsGroup), "--cap-drop", *own.capabilities.drop,
                 "--memory", memory]
        words += ["--read-only"] if own.readOnlyRootFilesystem else []
        words += [] if own.allowPrivilegeEscalation else ["--security-opt", "no-new-privileges"]
        for flag, values in (
                ("--network-alias", aliases),
                ("--env", [f"{name}={value}" for name, value in env.items()]),
                ("--volume", self.mounts(pod, container, pod_name))):
            words += [word for value in values for word in (flag, value)]
        args = [pods.expand(word, env) for word in container.args]
        return [*words, "--entrypoint", container.command[0], self.image, *args]

    def start(self, server: Object, name: str) -> None:
        pod = server.spec.template
        aliases = [f"{name}.{server.spec.serviceName}.{chart.NAMESPACE}.svc"]
        if "coordinator" in name:
            aliases.append(f"{server.metadata.name}.{chart.NAMESPACE}.svc")
        docker("run", "--detach", "--name", self.container(name),
               *self.command(pod, main_container(pod), name, aliases))

    def container(self, pod_name: str) -> str:
        return f"{self.name}-{pod_name}"

    def is_ready(self, pod_name: str) -> bool:
        return re.search("(shard|coordinator) ready", self.logs(pod_name)) is not None

    def logs(self, pod_name: str) -> str:
        done = docker("logs", self.container(pod_name), check=False)
        return done.stdout + done.stderr

    def inspect(self, pod_name: str, form: str) -> str:
        return docker("inspect", "--format", form, self.container(pod_name)).stdout.strip()


@contextlib.contextmanager
def network_and_image(name: str, image: str) -> Iterator[None]:
    docker("network", "create", name)
    try:
        yield
    finally:
        left = docker("ps", "-aq", "--filter", f"network={name}").stdout.split()
        docker("rm", "-f", "-v", *left, check=False)
        docker("network", "rm", name, check=False)
        docker("rmi", "-f", image, check=False)


@pytest.fixture
def release(bin_dir: pathlib.Path, tmp_path: pathlib.Path) -> Iterator[Pods]:
    try:
        if docker("info", check=False).returncode != 0:
            pytest.skip("no container engine answers; start one, or name one in DOCKER_HOST")
    except OSError:
        pytest.skip("docker is not installed")
    if os.geteuid() != 0:
        pytest.skip("handing over volumes to the user of the pods needs root")
    objects = chart.render_insecure(shard={"drain": {"delay": 1}})
    made = Pods(objects, tmp_path, f"dslide-chart-{uuid.uuid4().hex[:8]}")
    with network_and_image(made.name, made.image):
        make_image(bin_dir, tmp_path / "root.tar", made.image)
        yield made


def test_the_rendered_pods_run(release: Pods) -> None:
    objects = release.objects
    servers = {f"{server.metadata.name}-{index}": server for server in objects.servers()
               for index in range(server.spec.replicas)}
    for name, server in servers.items():
        release.start(server, name)

    # Every server becomes ready as its own user on a read-only root.
    for name in servers:
        wait_until(functools.partial(release.is_ready, name),
                   functools.partial(release.logs, name))
        user = release.inspect(name, "{{.Config.User}} {{.HostConfig.ReadonlyRootfs}}")
        assert user == "10001:10001 true"

    # The pod of helm test succeeds.
    pod = objects.one("Pod")
    for container in [*pod.spec.initContainers, *pod.spec.containers]:
        docker("run", "--rm", *release.command(pod, container, "test", []))

    # Stopped servers end in good order and leave their state on the volume.
    grace = objects.shards().spec.template.spec.terminationGracePeriodSeconds
    docker("stop", "--time", str(grace), *map(release.container, servers))
    for name in servers:
        assert release.inspect(name, "{{.State.ExitCode}}") == "0", release.logs(name)
        assert any((release.folder / name / "data" / "data").iterdir()), name
