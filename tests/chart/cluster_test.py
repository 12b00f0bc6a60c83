"""The rendered cluster runs: its containers' command lines as processes of this machine.

Addresses become ports of the loopback interface and paths move into a scratch folder; everything
else, the probes included, is as rendered. What this cannot show: scheduling, volumes, DNS, kubelets.

usage: cluster_test.py [--bin-dir DIR]
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

import chart
import pods
from processes import PATIENCE_SECONDS, free_port

BIN_DIR = pods.bin_dir(sys.argv)


def report(text):
    print(f"SKIPPED in part: {text}", file=sys.stderr)


def project(files, target):
    """Mounts a Secret's files as the kubelet does: names are links through one link, which an update swaps."""
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
    """Processes of a rendered release with its scratch folder."""

    def __init__(self, objects, folder, secrets):
        """secrets: {name of a Secret: {file name: bytes}}."""
        self.objects, self.folder, self.secrets = objects, pathlib.Path(folder), secrets
        self.processes, self.logs = {}, {}
        self.mounted = {}  # {name of a Secret: the folders where it is mounted}
        self.ports = {}
        for server in objects.servers():
            for index in range(server["spec"]["replicas"]):
                self.ports[f"{server['metadata']['name']}-{index}"] = (free_port(), free_port())

    def local(self, word, pod_name):
        """A word of a command line with the addresses of the cluster replaced by those of this machine."""
        grpc, admin = self.ports.get(pod_name, (0, 0))
        word = re.sub(r"0\.0\.0\.0:(7000|7010)$", f"127.0.0.1:{grpc}", word)
        word = re.sub(r"0\.0\.0\.0:(7001|7011|7021)$", f"127.0.0.1:{admin}", word)

        def address(match):
            host = match.group(1)
            # The clients' service has one pod behind it.
            name = host if host in self.ports else f"{host}-0"
            return f"127.0.0.1:{self.ports[name][match.group(2) in ('7001', '7011')]}"

        return re.sub(r"\b([a-z0-9-]+)(?:\.[a-z0-9-]+)?\.ns\.svc:(\d+)\b", address, word)

    def command(self, pod, container, pod_name):
        """(command line, environment) of a container."""
        env = pods.environment(container, pod_name)
        root = self.folder / pod_name
        pods.write_files(pods.files_of(self.objects, pod), root)
        for path in ("var/lib/dslide", "tmp", "data"):
            (root / path).mkdir(parents=True, exist_ok=True)
        program = BIN_DIR / container["command"][0]
        args = container["args"]
        if program.name != "dslide":
            args = pods.without_pending(program, args, report)
        args = [pods.in_folder(self.local(pods.expand(word, env), pod_name), root) for word in args]
        self.mount_secrets(pod, container, root)
        env = {name: pods.in_folder(value, root) for name, value in env.items()}
        return [program, *args], {"PATH": os.environ["PATH"], "TMPDIR": str(root / "tmp"), **env}

    def mount_secrets(self, pod, container, root):
        names = {item["name"]: item["secret"]["secretName"] for item in pod["spec"]["volumes"] if "secret" in item}
        for mount in container.get("volumeMounts", []):
            secret = names.get(mount["name"])
            if secret in self.secrets:
                target = pathlib.Path(f"{root}{mount['mountPath']}")
                self.mounted.setdefault(secret, set()).add(target)
                project(self.secrets[secret], target)

    def update_secret(self, name, files):
        """Other files in a Secret; they arrive in the pods that have it mounted."""
        self.secrets[name] = files
        for target in self.mounted[name]:
            project(files, target)

    def start(self, pod, container, pod_name):
        command, env = self.command(pod, container, pod_name)
        self.logs[pod_name] = self.folder / f"{pod_name}.log"
        with open(self.logs[pod_name], "a", encoding="utf-8") as log:
            self.processes[pod_name] = subprocess.Popen(command, env=env, stdout=log, stderr=log)

    def run(self, pod, container, pod_name):
        """A container that ends: its finished process."""
        command, env = self.command(pod, container, pod_name)
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE_SECONDS)

    def start_servers(self):
        for server in self.objects.servers():
            pod = server["spec"]["template"]
            for index in range(server["spec"]["replicas"]):
                self.start(pod, chart.main_container(pod), f"{server['metadata']['name']}-{index}")

    def probe(self, server, index, kind):
        """The status with which the pod answers a probe; 0 while it does not answer."""
        container = chart.main_container(server["spec"]["template"])
        names = {port["name"]: place for place, port in enumerate(container["ports"])}
        request = container[kind]["httpGet"]
        port = self.ports[f"{server['metadata']['name']}-{index}"][names[request["port"]]]
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{request['path']}", timeout=PATIENCE_SECONDS) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def wait_until_ready(self):
        for server in self.objects.servers():
            for index in range(server["spec"]["replicas"]):
                name = f"{server['metadata']['name']}-{index}"
                deadline = time.monotonic() + PATIENCE_SECONDS
                while self.probe(server, index, "readinessProbe") != 200:
                    if self.processes[name].poll() is not None or time.monotonic() > deadline:
                        raise AssertionError(f"{name} is not ready:\n{self.logs[name].read_text()}")
                    time.sleep(0.05)

    def stop(self):
        """{pod: exit code} after SIGTERM to all."""
        for process in self.processes.values():
            process.terminate()
        result = {}
        for name, process in self.processes.items():
            result[name] = process.wait(timeout=PATIENCE_SECONDS)
        self.processes = {}
        return result

    def kill(self):
        for process in self.processes.values():
            process.kill()
            process.wait()


class ClusterTests:
    """What a cluster of one file of values does; the tests of a class go on from each other."""

    VALUES = ""

    @classmethod
    def make_secrets(cls, folder):
        """{name of a Secret: {file name: bytes}}."""
        return {}

    @classmethod
    def setUpClass(cls):
        values = [chart.CHART / "ci" / f"{cls.VALUES}-values.yaml"]
        # A short delay in place of the default: what is waited for is counted in another test.
        cls.objects = chart.render(values, {"shard": {"drain": {"delay": 1}}})
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.cluster = Cluster(cls.objects, scratch.name, cls.make_secrets(pathlib.Path(scratch.name) / "certs"))
        cls.addClassCleanup(cls.cluster.kill)
        cls.cluster.start_servers()
        cls.cluster.wait_until_ready()

    def check(self, done):
        self.assertEqual(done.returncode, 0, f"{done.args}\n{done.stdout}\n{done.stderr}")

    def test_1_every_probe_of_every_server_is_answered(self):
        for server in self.objects.servers():
            for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
                for index in range(server["spec"]["replicas"]):
                    self.assertEqual(self.cluster.probe(server, index, kind), 200)

    def test_2_shards_have_the_numbers_of_their_pods(self):
        pod = self.objects.one("Pod")
        status = next(item for item in pod["spec"]["initContainers"] if item["name"] == "status")
        done = self.cluster.run(pod, status, "test-status")
        self.check(done)
        for index in range(2):
            grpc = self.cluster.ports[f"{self.objects.shards()['metadata']['name']}-{index}"][0]
            self.assertRegex(done.stdout, rf"(?m)^ +{index} +127\.0\.0\.1:{grpc} ")

    def test_3_the_pod_of_helm_test_succeeds_twice(self):
        pod = self.objects.one("Pod")
        for attempt in ("a", "b"):
            for container in pod["spec"]["initContainers"] + pod["spec"]["containers"]:
                if pods.is_pending(BIN_DIR / "dslide", container, report):
                    continue
                with self.subTest(attempt=attempt, container=container["name"]):
                    self.check(self.cluster.run(pod, container, f"test-{attempt}"))

    def test_4_the_trainers_of_the_job_train_together(self):
        job = self.objects.one("Job")["spec"]
        pod = job["template"]
        names = [f"trainer-{index}" for index in range(job["completions"])]
        for name in names:
            self.cluster.ports[name] = (free_port(), free_port())
            self.bring_data(pod, name)
        for name in names:
            self.cluster.start(pod, chart.main_container(pod), name)
        for name in names:
            status = self.cluster.processes.pop(name).wait(timeout=PATIENCE_SECONDS)
            log = self.cluster.logs[name].read_text()
            self.assertEqual(status, 0, log)
            self.assertIn("Trained", log)

    def bring_data(self, pod, name):
        """What the user of these values does."""
        for container in pod["spec"]["initContainers"]:
            self.check(self.cluster.run(pod, container, name))

    def test_5_servers_stop_in_good_order(self):
        # In a grace period that is the sum of what they may take: refusals_test.py.
        for name, status in self.cluster.stop().items():
            self.assertEqual(status, 0, self.cluster.logs[name].read_text())


class PlaintextClusterTest(ClusterTests, unittest.TestCase):
    VALUES = "trainer"


class TlsClusterTest(ClusterTests, unittest.TestCase):
    """The same with a certificate for each role, under the names of ci/tls-values.yaml."""

    VALUES = "tls"

    @classmethod
    def setUpClass(cls):
        if "certs" not in pods.subcommands(BIN_DIR / "dslide"):
            report("dslide makes no certificates yet: the cluster with TLS is not run")
            raise unittest.SkipTest("dslide has no subcommand certs")
        super().setUpClass()

    @classmethod
    def make_secrets(cls, folder):
        subprocess.run(
            [BIN_DIR / "dslide", "certs", "dev", "--output", folder, "--cluster", "prod", "--host", "127.0.0.1"],
            check=True, capture_output=True, timeout=PATIENCE_SECONDS,
        )
        cls.certificates = folder
        authority = (folder / "ca.crt").read_bytes()
        return {
            "dslide-crl": cls.revoke("reader"),
        } | {
            f"dslide-{role}-tls": {
                "tls.crt": (folder / f"{role}.crt").read_bytes(),
                "tls.key": (folder / f"{role}.key").read_bytes(),
                "ca.crt": authority,
            }
            for role in ("shard", "coordinator", "trainer", "operator")
        }

    @classmethod
    def revoke(cls, role):
        """{name: content} of the authority's lists after the role's certificate was revoked."""
        subprocess.run(
            [BIN_DIR / "dslide", "certs", "revoke", "--from", cls.certificates, cls.certificates / f"{role}.crt"],
            check=True, capture_output=True, timeout=PATIENCE_SECONDS,
        )
        return {path.name: path.read_bytes() for path in (cls.certificates / "crl").iterdir()}

    def bring_data(self, pod, name):
        target = self.cluster.folder / name / "data" / "train.txt"
        target.parent.mkdir(parents=True)
        self.check(subprocess.run(
            [BIN_DIR / "dslide", "data", "gen", "--output", target, "--points=2000", "--features=500", "--labels=200"],
            capture_output=True, text=True, timeout=PATIENCE_SECONDS,
        ))

    def test_2_a_client_without_a_certificate_is_refused(self):
        coordinator = self.objects.coordinator()["metadata"]["name"]
        port = self.cluster.ports[f"{coordinator}-0"][0]
        done = subprocess.run(
            [BIN_DIR / "dslide", "--timeout=10s", "status", "--cluster", f"127.0.0.1:{port}"],
            capture_output=True, text=True, timeout=PATIENCE_SECONDS, env={"PATH": os.environ["PATH"]},
        )
        self.assertNotEqual(done.returncode, 0)

    def test_4_when_a_list_is_added_to_the_secret_running_servers_follow_it(self):
        pod = self.objects.one("Pod")
        status = next(item for item in pod["spec"]["initContainers"] if item["name"] == "status")
        self.check(self.cluster.run(pod, status, "test-known"))
        lists = self.revoke("operator")
        self.assertEqual(sorted(name.partition(".")[2] for name in lists), ["r0", "r1"])
        self.cluster.update_secret("dslide-crl", lists)
        status["args"] = [word.replace("--timeout=60s", "--timeout=10s") for word in status["args"]]
        refused = self.cluster.run(pod, status, "test-revoked")
        self.assertNotEqual(refused.returncode, 0, refused.stdout)
        # The others are served as before.
        train = pod["spec"]["initContainers"][-1], pod["spec"]["containers"][0]
        for container in train:
            self.check(self.cluster.run(pod, container, "test-others"))


if __name__ == "__main__":
    if BIN_DIR is None:
        print("skipped: no programs in build/bin: ./run build makes them, --bin-dir names another folder")
        sys.exit(77)
    chart.renderer()
    chart.run_tests()
