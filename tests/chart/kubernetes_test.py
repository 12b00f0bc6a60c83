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


def run_node(arguments, program, name):
    """The finished node process; the program lies where its imports are found."""
    with tempfile.TemporaryDirectory(dir=MODULES) as folder:
        file = pathlib.Path(folder) / name
        file.write_text(program)
        return subprocess.run(
            ["node", *arguments, str(file)], cwd=MODULES, capture_output=True, text=True, timeout=120,
        )


def check_types(objects):
    compiler = MODULES / "node_modules" / "typescript" / "bin" / "tsc"
    return run_node([str(compiler), *_OPTIONS], typescript(objects), "objects.mts")


class KubernetesTest(unittest.TestCase):
    def everything(self):
        return [item for _, objects in chart.every_ci() for item in objects]

    def test_every_object_has_only_fields_that_kubernetes_knows_and_all_that_it_needs(self):
        done = check_types(self.everything())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_every_object_passes_its_validator(self):
        done = run_node([], validators(self.everything()), "objects.mjs")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_planted_mistakes_are_found(self):
        objects = chart.render_ci("ha")
        pod = objects.shards()["spec"]["template"]["spec"]
        pod["terminationGracePeriodSecond"] = pod.pop("terminationGracePeriodSeconds")
        del objects.coordinator()["spec"]["selector"]
        objects.one("PodMonitor")["spec"]["podMetricEndpoints"] = []
        findings = check_types(objects).stdout
        self.assertRegex(findings, "'\"terminationGracePeriodSecond\"' does not exist")
        self.assertRegex(findings, "Property '.selector.' is missing")
        self.assertRegex(findings, "'\"podMetricEndpoints\"' does not exist")

    def test_planted_wrong_values_are_found(self):
        objects = chart.render_ci("minimal")
        objects.one("Service", "-shard-headless")["spec"]["ports"][0]["port"] = "seven"
        self.assertEqual(run_node([], validators(objects), "objects.mjs").returncode, 1)


if __name__ == "__main__":
    if not shutil.which("node") or not (MODULES / "node_modules" / "kubernetes-models").is_dir():
        print("skipped: the definitions of Kubernetes are not here: ./run chart installs them with npm")
        sys.exit(77)
    chart.renderer()
    unittest.main()
