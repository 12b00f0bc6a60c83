"""Helm and the renderer in renderer/ give the same objects, and refuse the same values.

Skipped where only one of the two is: then nothing can be compared.
"""

import subprocess
import sys
import unittest

import chart
from processes import PATIENCE_SECONDS
import refusals_test


def by_name(text):
    objects = {}
    for item in chart.parse(text):
        key = (item["kind"], item["metadata"]["name"])
        assert key not in objects, f"two objects are {key}"
        objects[key] = item
    return objects


class RendererTest(unittest.TestCase):
    maxDiff = None

    def test_both_render_the_same_objects(self):
        for path in chart.CI_FILES:
            for apis in ((), (chart.MONITORING,)):
                with self.subTest(values=path.name, apis=apis):
                    helm, own = (
                        by_name(chart.run_renderer(str(program), [path], apis=apis))
                        for program in (chart.helm_program(), chart.own_renderer())
                    )
                    self.assertEqual(helm, own)

    def test_both_refuse_the_same_values(self):
        for what, values, message in refusals_test.REFUSED:
            for program in (chart.helm_program(), chart.own_renderer()):
                with self.subTest(what, program=str(program)):
                    with self.assertRaises(chart.RenderError) as caught:
                        chart.run_renderer(str(program), overrides=values)
                    self.assertRegex(str(caught.exception), message)

    def test_helm_refuses_a_kubernetes_that_is_too_old(self):
        path = chart.CHART / "ci" / "minimal-values.yaml"
        for version, accepted in (("1.28.9", False), ("1.29.0", True)):
            with self.subTest(kubernetes=version):
                extra = ["--kube-version", version]
                if accepted:
                    chart.run_renderer(chart.helm_program(), [path], extra=extra)
                    continue
                with self.assertRaises(chart.RenderError) as caught:
                    chart.run_renderer(chart.helm_program(), [path], extra=extra)
                self.assertIn("kubeVersion", str(caught.exception))

    def test_helm_lint_has_no_findings(self):
        for path in chart.CI_FILES:
            with self.subTest(values=path.name):
                done = subprocess.run(
                    [chart.helm_program(), "lint", "--strict", chart.CHART, "-f", path],
                    capture_output=True, text=True, timeout=PATIENCE_SECONDS,
                )
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    if not chart.helm_program() or not chart.own_renderer():
        print("skipped: comparing the renderers needs helm and Go; ./run chart --fetch-helm brings the first")
        sys.exit(77)
    chart.run_tests()
