"""What helm itself says of the chart: its lint, and which Kubernetes is too old."""

import subprocess

import chart
import pytest
from processes import PATIENCE_SECONDS


@pytest.mark.parametrize("values", chart.CI_NAMES)
def test_lint_has_no_findings(values: str) -> None:
    done = subprocess.run(
        [chart.helm_program(), "lint", "--strict", chart.CHART, "-f", chart.ci_file(values)],
        capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_kubernetes_that_is_too_old_is_refused() -> None:
    def template(version: str) -> str:
        return chart.template([chart.ci_file("minimal")], extra=["--kube-version", version])

    assert template("1.29.0")
    with pytest.raises(chart.RenderError, match="kubeVersion"):
        template("1.28.9")
