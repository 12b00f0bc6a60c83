"""What the tests of the chart share: rendering it, and finding things in what was rendered.

Helm renders: that which DSLIDE_HELM names, that of tools/helm/helm.sh, or that on PATH.
"""

import copy
import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import api_server
import pytest
import yaml
from processes import PATIENCE_SECONDS
from python_package import cache_folder

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "helm" / "dslide"
# {name: file} of values: those that users start from, and those of the tests alone.
VALUES_FILES = {
    **{path.stem: path for path in (CHART / "values").glob("*.yaml")},
    **{path.name.removesuffix("-values.yaml"): path
       for path in (CHART / "ci").glob("*-values.yaml")},
}
CI_NAMES = sorted(VALUES_FILES)
# Those whose releases are encrypted.
SECURED = ("data-server", "external", "tls", "production", "serve")
RELEASE, NAMESPACE = "rel", "ns"
MONITORING = "monitoring.coreos.com/v1"
# The parser in C where PyYAML has it: ten times as fast.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class RenderError(Exception):
    """Helm refused; its text is the message."""


class Object(dict[str, Any]):
    """A part of a rendered object, whose fields are attributes too; an absent one is None."""

    def __getattr__(self, name: str) -> Any:
        return self.get(name)


yaml.SafeDumper.add_representer(Object, yaml.SafeDumper.represent_dict)


@functools.cache
def helm_program() -> str:
    """Path of helm; skips the test where there is none."""
    if os.environ.get("DSLIDE_HELM"):
        return os.environ["DSLIDE_HELM"]
    built = subprocess.run(
        [ROOT / "tools" / "helm" / "helm.sh", "--find", cache_folder("helm")],
        capture_output=True, text=True, timeout=20,
    )
    found = built.stdout.strip() or shutil.which("helm")
    return found or pytest.skip("helm is not here: ./run chart builds it from its Go module")


def template(
    values: Iterable[pathlib.Path] = (), overrides: Any = None, apis: Iterable[str] = (),
    extra: Sequence[str] = (), source: pathlib.Path = CHART,
) -> str:
    """stdout of `helm template` with files of values and an object over them."""
    with tempfile.TemporaryDirectory() as folder:
        command = [helm_program(), "template", RELEASE, str(source), "-n", NAMESPACE, *extra]
        for path in values:
            command += ["-f", str(path)]
        if overrides is not None:
            top = pathlib.Path(folder) / "overrides.yaml"
            top.write_text(yaml.safe_dump(overrides))
            command += ["-f", str(top)]
        for api in apis:
            command += ["--api-versions", api]
        homes = dict.fromkeys(("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"), folder)
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE_SECONDS,
            env=os.environ | homes,
        )
    if done.returncode != 0:
        raise RenderError(done.stderr)
    return done.stdout


class Objects(list[Object]):
    """Rendered objects."""

    @classmethod
    def parse(cls, text: str) -> "Objects":
        documents = [part for part in yaml.load_all(text, Loader=_LOADER) if part]
        return cls(json.loads(json.dumps(documents), object_hook=Object))

    def all(self, kind: str) -> list[Object]:
        return [item for item in self if item.kind == kind]

    def one(self, kind: str, suffix: str = "") -> Object:
        names = [item.metadata.name for item in self.all(kind)]
        found = [item for item in self.all(kind) if item.metadata.name.endswith(suffix)]
        assert len(found) == 1, f"{len(found)} objects {kind} *{suffix}, not one, are in {names}"
        return found[0]

    def shards(self) -> Object:
        return self.one("StatefulSet", "-shard")

    def coordinator(self) -> Object:
        return self.one("StatefulSet", "-coordinator")

    def servers(self) -> list[Object]:
        return [self.shards(), self.coordinator()]

    def pods(self) -> dict[str, Object]:
        """{name of the owner: pod} of everything that makes pods."""
        owners = {f"{item.kind} {item.metadata.name}": item for item in self}
        templates = {name: item if item.kind == "Pod" else item.spec and item.spec.template
                     for name, item in owners.items()}
        return {name: pod for name, pod in templates.items() if pod and pod.spec.containers}


def render(
    values: Iterable[pathlib.Path] = (), overrides: Any = None,
    apis: Iterable[str] = (MONITORING,),
) -> Objects:
    return Objects.parse(template(values, overrides, apis))


def render_insecure(**values: Any) -> Objects:
    return render(overrides={"insecure": True, **values})


def ci_file(name: str) -> pathlib.Path:
    return VALUES_FILES[name]


@functools.cache
def _rendered_ci(name: str) -> Objects:
    return render([ci_file(name)])


def render_ci(name: str) -> Objects:
    """Objects of the file of values NAME, as the caller's own copy."""
    return copy.deepcopy(_rendered_ci(name))


def every_ci() -> Iterator[tuple[str, Objects]]:
    """(name, objects) of every file of values."""
    return ((name, render_ci(name)) for name in CI_NAMES)


def containers_of(pod: Object) -> list[Object]:
    return [*pod.spec.containers, *(pod.spec.initContainers or [])]


def main_container(pod: Object) -> Object:
    container: Object = pod.spec.containers[0]
    return container


def flags(container: Object) -> dict[str, str]:
    """{name: value} of a container's flags; a flag without a value has an empty one."""
    matches = [re.fullmatch(r"--([a-z-]+)(?:=(.*))?", word, re.DOTALL) for word in container.args]
    return {match.group(1): match.group(2) or "" for match in matches if match}


def flags_of(server: Object) -> dict[str, str]:
    return flags(main_container(server.spec.template))


_NOTES_TEMPLATE = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: notes}
data: {text: {{ include (print $.Template.BasePath "/NOTES.txt") . | toJson }}}
"""


def notes(overrides: Any, apis: Iterable[str] = ()) -> str:
    """The text of NOTES.txt, which `helm template` keeps to itself: a copy's template shows it."""
    with tempfile.TemporaryDirectory() as folder:
        copied = shutil.copytree(CHART, pathlib.Path(folder) / "dslide")
        (copied / "templates" / "notes.yaml").write_text(_NOTES_TEMPLATE)
        text = template(overrides=overrides, apis=apis, source=copied)
    return str(Objects.parse(text).one("ConfigMap", "notes").data.text)


def upgrade(existing: Iterable[Any], overrides: Any) -> Objects:
    """Objects of an upgrade in a cluster where `lookup` finds `existing`."""
    with tempfile.TemporaryDirectory() as folder, api_server.serve(existing, folder) as config:
        text = template(
            overrides=overrides,
            extra=["--dry-run=server", "--is-upgrade", "--disable-openapi-validation",
                   "--kubeconfig", str(config)],
        )
    return Objects.parse(text)


def default_values() -> Any:
    return yaml.safe_load((CHART / "values.yaml").read_text())


def values_of(name: str) -> Any:
    """The values of the file NAME over the defaults."""

    def merge(below: Any, above: Any) -> Any:
        both = isinstance(below, dict) and isinstance(above, dict)
        return below | {key: merge(below.get(key), value) for key, value in above.items()} \
            if both else above

    return merge(default_values(), yaml.safe_load(ci_file(name).read_text()))
