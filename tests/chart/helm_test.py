"""What helm itself says of the chart: its lint, and which Kubernetes is too old."""

import subprocess
import sys
import unittest

import chart


class HelmTest(unittest.TestCase):
    def test_lint_has_no_findings(self):
        for path in chart.CI_FILES:
            with self.subTest(values=path.name):
                done = subprocess.run(
                    [chart.helm_program(), "lint", "--strict", chart.CHART, "-f", path],
                    capture_output=True, text=True, timeout=60,
                )
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_kubernetes_that_is_too_old_is_refused(self):
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


if __name__ == "__main__":
    if not chart.helm_program():
        print("skipped: helm is not here: ./run chart builds it from its Go module")
        sys.exit(77)
    chart.run_tests()
