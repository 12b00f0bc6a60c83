"""The rendered pods run under a real container engine, with the addresses that the chart gives them.

Needs an engine that `docker` reaches (DOCKER_HOST) and root, to hand over volumes as a kubelet does.
The image is made here, of the programs and the libraries that they load and nothing else: no shell,
no package, so that what runs is what the chart asks for. It is removed at the end.

usage: pod_check.py [--bin-dir DIR]     part of ./run chart
"""

import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
import uuid

import chart
import pods
from processes import PATIENCE_SECONDS

BIN_DIR = pods.bin_dir(sys.argv)
PROGRAMS = ("dslide", "dslide-shard", "dslide-coordinator")


def docker(*words, check=True):
    done = subprocess.run(["docker", *words], capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    if check and done.returncode != 0:
        raise AssertionError(f"docker {' '.join(words)}: {done.stdout}{done.stderr}")
    return done


def why_not():
    """Why this machine cannot run the test; '' when it can."""
    if BIN_DIR is None:
        return "no programs in build/bin: ./run build makes them"
    try:
        done = docker("info", check=False)
    except OSError:
        return "docker is not installed"
    if done.returncode != 0:
        return "no container engine answers; start one, or name one in DOCKER_HOST"
    if os.geteuid() != 0:
        return "handing over volumes to the user of the pods needs root"
    return ""


def libraries(program):
    """Files that the program loads, the loader included."""
    shown = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"(/\S+) \(0x", shown))


def make_image(tag):
    with tempfile.TemporaryDirectory() as folder:
        archive = pathlib.Path(folder) / "root.tar"
        with tarfile.open(archive, "w", dereference=True) as tar:
            for name in PROGRAMS:
                tar.add(BIN_DIR / name, f"usr/bin/{name}")
            for path in sorted(set().union(*(libraries(BIN_DIR / name) for name in PROGRAMS))):
                tar.add(path, path.lstrip("/"))
        docker("import", "--change", "ENV PATH=/usr/bin", str(archive), tag)


class Engine:
    """Pods of one rendered release in a network of their own."""

    def __init__(self, objects, folder):
        self.objects, self.folder = objects, pathlib.Path(folder)
        self.name = f"dslide-chart-{uuid.uuid4().hex[:8]}"
        self.image = f"{self.name}:test"
        self.containers = []

    def open(self):
        make_image(self.image)
        docker("network", "create", self.name)

    def close(self):
        for container in self.containers:
            docker("rm", "-f", "-v", container, check=False)
        docker("network", "rm", self.name, check=False)
        docker("rmi", "-f", self.image, check=False)

    def volume(self, pod_name, name, group):
        """A folder handed over as a volume with fsGroup is."""
        path = self.folder / pod_name / name
        path.mkdir(parents=True, exist_ok=True)
        os.chown(path, 0, group)
        path.chmod(0o2775)
        if name == "data":
            # As on a fresh file system, and not handed over.
            (path / "lost+found").mkdir(mode=0o700, exist_ok=True)
        return path

    def mounts(self, pod, container, pod_name):
        group = pod["spec"]["securityContext"]["fsGroup"]
        maps = {item["name"]: item["configMap"]["name"] for item in pod["spec"]["volumes"] if "configMap" in item}
        for mount in container.get("volumeMounts", []):
            source = self.volume(pod_name, mount["name"], group)
            if mount["name"] in maps:
                for name, text in self.objects.one("ConfigMap", maps[mount["name"]])["data"].items():
                    (source / name).write_text(text)
            mode = "ro" if mount.get("readOnly") else "rw"
            yield f"{source}:{mount['mountPath']}:{mode}"

    def command(self, pod, container, pod_name, aliases):
        """Arguments of `docker create` for a container, by its own and its pod's security contexts."""
        own, shared = container["securityContext"], pod["spec"]["securityContext"]
        env = pods.environment(container, pod_name)
        words = ["--network", self.name, "--user", f"{own['runAsUser']}:{shared['runAsGroup']}"]
        words += ["--group-add", str(shared["fsGroup"]), "--cap-drop", *own["capabilities"]["drop"]]
        words += ["--read-only"] if own["readOnlyRootFilesystem"] else []
        words += [] if own["allowPrivilegeEscalation"] else ["--security-opt", "no-new-privileges"]
        words += [word for name in aliases for word in ("--network-alias", name)]
        words += [word for name, value in env.items() for word in ("--env", f"{name}={value}")]
        words += [word for mount in self.mounts(pod, container, pod_name) for word in ("--volume", mount)]
        memory = container["resources"]["limits"]["memory"]
        words += ["--memory", re.sub("i$", "", memory).lower()]
        args = [pods.expand(word, env) for word in container["args"]]
        return [*words, "--entrypoint", container["command"][0], self.image, *args]

    def start(self, pod, pod_name, aliases):
        container = chart.main_container(pod)
        name = f"{self.name}-{pod_name}"
        self.containers.append(name)
        docker("run", "--detach", "--name", name, *self.command(pod, container, pod_name, aliases))
        return name

    def run(self, pod, container, pod_name):
        return docker("run", "--rm", *self.command(pod, container, pod_name, []), check=False)

    def logs(self, pod_name):
        done = docker("logs", f"{self.name}-{pod_name}", check=False)
        return done.stdout + done.stderr


class PodTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.objects = chart.render(overrides={"insecure": True, "shard": {"drain": {"delay": 1}}})
        cls.scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.engine = Engine(cls.objects, cls.scratch.name)
        cls.addClassCleanup(cls.engine.close)
        cls.engine.open()
        cls.names = []
        for server in cls.objects.servers():
            for index in range(server["spec"]["replicas"]):
                name = f"{server['metadata']['name']}-{index}"
                aliases = [f"{name}.{server['spec']['serviceName']}.{chart.NAMESPACE}.svc"]
                if "coordinator" in name:
                    aliases.append(f"{server['metadata']['name']}.{chart.NAMESPACE}.svc")
                cls.engine.start(server["spec"]["template"], name, aliases)
                cls.names.append(name)

    def test_1_every_server_becomes_ready_as_its_own_user_on_a_read_only_root(self):
        deadline = time.monotonic() + PATIENCE_SECONDS
        for name in self.names:
            wanted = "shard ready" if "shard" in name else "coordinator ready"
            while wanted not in self.engine.logs(name):
                self.assertLess(time.monotonic(), deadline, f"{name}:\n{self.engine.logs(name)}")
                time.sleep(0.1)
            shown = docker("inspect", "--format", "{{.Config.User}} {{.HostConfig.ReadonlyRootfs}}", f"{self.engine.name}-{name}")
            self.assertEqual(shown.stdout.strip(), "10001:10001 true")

    def test_2_the_pod_of_helm_test_succeeds(self):
        pod = self.objects.one("Pod")
        for container in pod["spec"]["initContainers"] + pod["spec"]["containers"]:
            if pods.is_pending(BIN_DIR / "dslide", container, lambda text: print(f"SKIPPED in part: {text}", file=sys.stderr)):
                continue
            done = self.engine.run(pod, container, "test")
            self.assertEqual(done.returncode, 0, f"{container['name']}: {done.stdout}{done.stderr}")

    def test_3_stopped_servers_end_in_good_order_and_leave_their_state_on_the_volume(self):
        grace = self.objects.shards()["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
        docker("stop", "--time", str(grace), *(f"{self.engine.name}-{name}" for name in self.names))
        for name in self.names:
            status = docker("inspect", "--format", "{{.State.ExitCode}}", f"{self.engine.name}-{name}").stdout.strip()
            self.assertEqual(status, "0", self.engine.logs(name))
            self.assertTrue(any((self.engine.folder / name / "data" / "data").iterdir()), f"{name} left nothing on its volume")


if __name__ == "__main__":
    REASON = why_not()
    if REASON:
        print(f"skipped: {REASON}")
        sys.exit(77)
    chart.renderer()
    chart.run_tests()
