"""What the tests of the chart share: rendering it, and finding things in what was rendered.

The chart is rendered by, in this order: the helm that DSLIDE_HELM names, that which
tools/helm/helm.sh has built, that on PATH; the program that DSLIDE_CHART_RENDERER names (it is given
arguments of `helm template`); or, where no helm can be had, the renderer in renderer/, which is built
with Debian's Go packages.
"""

import copy
import fcntl
import functools
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    import yaml
except ImportError:
    print("skipped: python3-yaml is not installed (./run chart installs it)")
    sys.exit(77)

import api_server

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/integration"))
from processes import PATIENCE_SECONDS  # noqa: E402

CHART = ROOT / "helm" / "dslide"
CI_FILES = sorted((CHART / "ci").glob("*-values.yaml"))
RELEASE, NAMESPACE = "rel", "ns"
MONITORING = "monitoring.coreos.com/v1"
GO_PACKAGES = (
    "golang-github-masterminds-sprig-dev golang-k8s-sigs-yaml-dev "
    "golang-github-xeipuuv-gojsonschema-dev"
)
_GO_PATH = pathlib.Path("/usr/share/gocode")


def run_tests():
    """unittest.main() that says aloud what it skips; ends with 77 when that is everything."""
    result = unittest.main("__main__", exit=False).result
    for case, reason in result.skipped:
        print(f"SKIPPED {case}: {reason}", file=sys.stderr)
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(77 if result.testsRun == len(result.skipped) else 0)


class RenderError(Exception):
    """The renderer refused; its text is the message."""


def cache_folder(part="chart"):
    """Where what is built or installed for the tests is kept: that of ./run."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(os.environ.get("DSLIDE_CACHE_DIR") or f"{cache}/dslide") / part


@functools.lru_cache(maxsize=None)
def helm_program():
    """Path of helm; None where there is none."""
    if os.environ.get("DSLIDE_HELM"):
        return os.environ["DSLIDE_HELM"]
    built = subprocess.run(
        [ROOT / "tools" / "helm" / "helm.sh", "--find", cache_folder("helm")],
        capture_output=True, text=True, timeout=20,
    )
    return built.stdout.strip() or shutil.which("helm")


@functools.lru_cache(maxsize=None)
def own_renderer():
    """Path of the renderer in renderer/, built when its sources changed; None without Go."""
    go = shutil.which("go")
    if not go or not (_GO_PATH / "src/github.com/Masterminds/sprig").is_dir():
        return None
    source = pathlib.Path(__file__).with_name("renderer")
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(source.glob("*.go"))))
    program = cache_folder() / f"chart-renderer-{digest.hexdigest()[:16]}"
    program.parent.mkdir(parents=True, exist_ok=True)
    # Of tests that run at one time, one builds it.
    with open(program.parent / "renderer.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            built = program.with_suffix(".part")
            subprocess.run(
                [go, "build", "-o", built, "."], cwd=source, check=True,
                env={**os.environ, "GO111MODULE": "off", "GOPATH": str(_GO_PATH), "GOFLAGS": "",
                     "GOCACHE": str(cache_folder() / "go-cache")},
            )
            built.rename(program)
    return program


@functools.lru_cache(maxsize=None)
def renderer():
    """(name, program) of what renders; ends the process as skipped when there is nothing."""
    if helm_program():
        return "helm", helm_program()
    named = os.environ.get("DSLIDE_CHART_RENDERER")
    if named:
        return "DSLIDE_CHART_RENDERER", named
    if own_renderer():
        return "tests/chart/renderer", str(own_renderer())
    print(f"skipped: nothing renders the chart here: neither helm nor Go's packages ({GO_PACKAGES}); ./run chart brings helm")
    sys.exit(77)


def run_renderer(program, values=(), overrides=None, apis=(), extra=(), source=CHART):
    """stdout of `PROGRAM template` with files of values and an object over them."""
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "template", RELEASE, str(source), "-n", NAMESPACE]
        for path in values:
            command += ["-f", str(path)]
        if overrides is not None:
            top = pathlib.Path(folder) / "overrides.yaml"
            top.write_text(yaml.safe_dump(overrides))
            command += ["-f", str(top)]
        for api in apis:
            command += ["--api-versions", api]
        done = subprocess.run(
            [*command, *extra], capture_output=True, text=True, timeout=PATIENCE_SECONDS,
            env={**os.environ, "HELM_CACHE_HOME": folder, "HELM_CONFIG_HOME": folder, "HELM_DATA_HOME": folder},
        )
    if done.returncode != 0:
        raise RenderError(done.stderr)
    return done.stdout


# The parser in C where PyYAML has it: ten times as fast.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def parse(stream):
    return [document for document in yaml.load_all(stream, Loader=_LOADER) if document]


class Objects(list):
    """Rendered objects."""

    def all(self, kind):
        return [item for item in self if item["kind"] == kind]

    def one(self, kind, suffix=""):
        found = [item for item in self.all(kind) if item["metadata"]["name"].endswith(suffix)]
        if len(found) != 1:
            names = [item["metadata"]["name"] for item in self.all(kind)]
            raise AssertionError(f"{len(found)} objects {kind} *{suffix}, not one; there are: {names}")
        return found[0]

    def shards(self):
        return self.one("StatefulSet", "-shard")

    def coordinator(self):
        return self.one("StatefulSet", "-coordinator")

    def servers(self):
        return [self.shards(), self.coordinator()]

    def pods(self):
        """{name of the owner: {metadata, spec}} of everything that makes pods."""
        result = {}
        for item in self:
            name = f"{item['kind']} {item['metadata']['name']}"
            if item["kind"] == "Pod":
                result[name] = item
            elif item["kind"] in ("StatefulSet", "Job", "Deployment", "DaemonSet"):
                result[name] = item["spec"]["template"]
        return result


def render(values=(), overrides=None, apis=(MONITORING,)):
    return Objects(parse(run_renderer(renderer()[1], values, overrides, apis)))


@functools.lru_cache(maxsize=None)
def _rendered_ci(name):
    return render([CHART / "ci" / f"{name}-values.yaml"])


def render_ci(name):
    """Objects of ci/NAME-values.yaml, as the caller's own copy."""
    return copy.deepcopy(_rendered_ci(name))


def every_ci():
    """(name, objects) of every file of values."""
    for path in CI_FILES:
        name = path.name.removesuffix("-values.yaml")
        yield name, render_ci(name)


def main_container(pod):
    return pod["spec"]["containers"][0]


def flags(container):
    """{name: value} of a container's flags; a flag without a value has None."""
    result = {}
    for word in container["args"]:
        match = re.fullmatch(r"--([a-z-]+)(?:=(.*))?", word, re.DOTALL)
        if match:
            result[match.group(1)] = match.group(2)
    return result


_NOTES_TEMPLATE = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: notes}
data: {text: {{ include (print $.Template.BasePath "/NOTES.txt") . | toJson }}}
"""


def notes(overrides, apis=()):
    """The text of NOTES.txt, which `helm template` keeps to itself: a template of a copy shows it."""
    with tempfile.TemporaryDirectory() as folder:
        copied = shutil.copytree(CHART, pathlib.Path(folder) / "dslide")
        (copied / "templates" / "notes.yaml").write_text(_NOTES_TEMPLATE)
        text = run_renderer(renderer()[1], overrides=overrides, apis=apis, source=copied)
    return Objects(parse(text)).one("ConfigMap", "notes")["data"]["text"]


def upgrade(existing, overrides):
    """Objects of an upgrade in a cluster where `lookup` finds `existing`; needs helm."""
    with tempfile.TemporaryDirectory() as folder, api_server.ApiServer(existing, folder) as config:
        text = run_renderer(
            helm_program(), overrides=overrides,
            extra=["--dry-run=server", "--is-upgrade", "--disable-openapi-validation", "--kubeconfig", str(config)],
        )
    return Objects(parse(text))
