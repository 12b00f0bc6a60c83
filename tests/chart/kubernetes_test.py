"""Every rendered object is what Kubernetes accepts: no unknown field, nothing required missing.

The definitions come from npm: kubernetes-models (types made from the OpenAPI of Kubernetes) and its
packages for the Prometheus operator and cert-manager. TypeScript's compiler refuses unknown fields
and misses required ones; the packages' own validators check formats. `./run chart` installs them.
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import chart
from processes import PATIENCE_SECONDS

# Folder with node_modules; ./run chart fills it.
MODULES = chart.cache_folder() / "npm"
# Kinds of other groups than these are part of Kubernetes itself.
_PACKAGES = {
    "monitoring.coreos.com": "@kubernetes-models/prometheus-operator",
    "cert-manager.io": "@kubernetes-models/cert-manager",
}
_OPTIONS = [
    "--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "--moduleResolution", "nodenext",
    "--target", "es2022", "--pretty", "false",
]


def module_of(item):
    """The module that has the type of an object."""
    group = item["apiVersion"].rpartition("/")[0]
    return f"{_PACKAGES.get(group, 'kubernetes-models')}/{item['apiVersion']}"


def typescript(objects):
    """A program that is correct when the objects are: one constant of its kind's type for each."""
    lines = []
    for place, item in enumerate(objects):
        lines.append(f"import type {{ I{item['kind']} as T{place} }} from {json.dumps(module_of(item))};")
        lines.append(f"export const object{place}: T{place} = {json.dumps(item, indent=1)};")
    return "\n".join(lines) + "\n"


def validators(objects):
    """A program that runs the packages' validators and prints what they refuse."""
    lines = []
    for place, item in enumerate(objects):
        lines.append(f"import {{ {item['kind']} as K{place} }} from {json.dumps(module_of(item))};")
    for place, item in enumerate(objects):
        name = json.dumps(f"{item['kind']} {item['metadata']['name']}: ")
        lines.append(
            f"try {{ new K{place}({json.dumps(item)}).validate(); }} "
            f"catch (error) {{ console.log({name} + error.message); process.exitCode = 1; }}"
        )
    return "\n".join(lines) + "\n"


def planted_type_mistakes():
    """Objects with an unknown field, a missing one, and an unknown one of a custom resource."""
    objects = chart.render_ci("ha")
    pod = objects.shards()["spec"]["template"]["spec"]
    pod["terminationGracePeriodSecond"] = pod.pop("terminationGracePeriodSeconds")
    del objects.coordinator()["spec"]["selector"]
    objects.one("PodMonitor")["spec"]["podMetricEndpoints"] = []
    return objects


def planted_value_mistake():
    """A service with a port that is no number."""
    service = chart.render_ci("minimal").one("Service", "-shard-headless")
    service["spec"]["ports"][0]["port"] = "seven"
    return [service]


def run_node(arguments, programs):
    """The output of node for programs {name: text}, which lie where their imports are found."""
    with tempfile.TemporaryDirectory(dir=MODULES) as folder:
        for name, text in programs.items():
            (pathlib.Path(folder) / name).write_text(text)
        files = [str(pathlib.Path(folder) / name) for name in programs]
        done = subprocess.run(
            ["node", *arguments, *files], cwd=MODULES, capture_output=True, text=True, timeout=PATIENCE_SECONDS,
        )
    return done.stdout + done.stderr


class KubernetesTest(unittest.TestCase):
    """Both programs run once, over what is right and what is planted: starting them is what takes time."""

    @classmethod
    def setUpClass(cls):
        right = [item for _, objects in chart.every_ci() for item in objects]
        compiler = MODULES / "node_modules" / "typescript" / "bin" / "tsc"
        cls.types = run_node(
            [str(compiler), *_OPTIONS],
            {"right.mts": typescript(right), "planted.mts": typescript(planted_type_mistakes())},
        )
        cls.values = run_node([], {"all.mjs": validators(right + planted_value_mistake())})

    def test_every_object_has_only_fields_that_kubernetes_knows_and_all_that_it_needs(self):
        findings = [line for line in self.types.splitlines() if "planted.mts" not in line]
        self.assertEqual([], findings)

    def test_planted_mistakes_in_fields_are_found(self):
        planted = "\n".join(line for line in self.types.splitlines() if "planted.mts" in line)
        self.assertRegex(planted, "'\"terminationGracePeriodSecond\"' does not exist")
        self.assertRegex(planted, "Property '.selector.' is missing")
        self.assertRegex(planted, "'\"podMetricEndpoints\"' does not exist")

    def test_every_object_passes_its_validator_and_a_planted_value_does_not(self):
        self.assertRegex(self.values, r"^Service rel-dslide-shard-headless: .*port must be integer\n$")


if __name__ == "__main__":
    if not shutil.which("node") or not (MODULES / "node_modules" / "kubernetes-models").is_dir():
        print("skipped: the definitions of Kubernetes are not here: ./run chart installs them with npm")
        sys.exit(77)
    chart.renderer()
    chart.run_tests()
