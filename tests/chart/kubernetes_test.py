"""Every rendered object is what Kubernetes accepts: no unknown field, nothing required missing.

The definitions come from npm: kubernetes-models (types made from the OpenAPI of Kubernetes) and its
packages for the Prometheus operator and cert-manager. TypeScript's compiler refuses unknown fields
and misses required ones; the packages' own validators check formats. `./run chart` installs them.
"""

import json
import pathlib
import re
import shutil
import subprocess
import tempfile

import chart
import pytest
from chart import Object
from processes import PATIENCE_SECONDS
from python_package import cache_folder

# Folder with node_modules; ./run chart fills it.
MODULES = cache_folder("chart/npm")
# Kinds of other groups than these are part of Kubernetes itself.
_PACKAGES = {
    "monitoring.coreos.com": "@kubernetes-models/prometheus-operator",
    "cert-manager.io": "@kubernetes-models/cert-manager",
}
_COMPILE = [
    "node_modules/typescript/bin/tsc", "--noEmit", "--strict", "--skipLibCheck", "--module",
    "nodenext", "--moduleResolution", "nodenext", "--target", "es2022", "--pretty", "false",
]
pytestmark = pytest.mark.skipif(
    not shutil.which("node") or not (MODULES / "node_modules" / "kubernetes-models").is_dir(),
    reason="the definitions of Kubernetes are not here: ./run chart installs them with npm")


def module_of(item: Object) -> str:
    """The module that has the type of an object, as a literal."""
    group = item.apiVersion.rpartition("/")[0]
    return json.dumps(f"{_PACKAGES.get(group, 'kubernetes-models')}/{item.apiVersion}")


def typescript(objects: list[Object]) -> str:
    """A program that is correct when the objects are: one constant of its kind's type for each."""
    return "".join(
        f"import type {{ I{item.kind} as T{place} }} from {module_of(item)};\n"
        f"export const object{place}: T{place} = {json.dumps(item, indent=1)};\n"
        for place, item in enumerate(objects))


def validators(objects: list[Object]) -> str:
    """A program that runs the packages' validators and prints what they refuse."""
    return "".join(
        f"import {{ {item.kind} as K{place} }} from {module_of(item)};\n"
        f"try {{ new K{place}({json.dumps(item)}).validate(); }} catch (error) {{"
        f" console.log({json.dumps(f'{item.kind} {item.metadata.name}: ')} + error.message); }}\n"
        for place, item in enumerate(objects))


def run_node(words: list[str], programs: dict[str, str]) -> str:
    """The output of node for {name: text}, which lie where their imports are found."""
    with tempfile.TemporaryDirectory(dir=MODULES) as folder:
        files = [pathlib.Path(folder) / name for name in programs]
        for file, text in zip(files, programs.values()):
            file.write_text(text)
        done = subprocess.run(["node", *words, *files], cwd=MODULES, capture_output=True,
                              text=True, timeout=PATIENCE_SECONDS)
    return done.stdout + done.stderr


# What is right and what is planted are checked in one go: starting the programs is what takes time.


def test_every_object_has_only_fields_that_kubernetes_knows_and_all_that_it_needs() -> None:
    right = [item for _, objects in chart.every_ci() for item in objects]
    planted = chart.render_ci("production")
    pod = planted.shards().spec.template.spec
    pod["terminationGracePeriodSecond"] = pod.pop("terminationGracePeriodSeconds")
    del planted.coordinator().spec["selector"]
    planted.one("PodMonitor").spec["podMetricEndpoints"] = []
    said = run_node(_COMPILE, {"right.mts": typescript(right), "planted.mts": typescript(planted)})
    assert [line for line in said.splitlines() if "planted.mts" not in line] == []
    for mistake in ("'\"terminationGracePeriodSecond\"' does not exist",
                    "Property '.selector.' is missing", "'\"podMetricEndpoints\"' does not exist"):
        assert re.search(mistake, said)


def test_every_object_passes_its_validator_and_a_planted_value_does_not() -> None:
    right = [item for _, objects in chart.every_ci() for item in objects]
    planted = chart.render_ci("minimal").one("Service", "-shard-headless")
    planted.spec.ports[0]["port"] = "seven"
    said = run_node([], {"all.mjs": validators([*right, planted])})
    assert re.fullmatch("Service rel-dslide-shard-headless: .*port must be integer\n", said), said
