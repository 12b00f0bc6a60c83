"""Where the parts of the tree are that these tests look at. Importing it finds their modules, too."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
GRAFANA = ROOT / "deploy" / "grafana"
PROMETHEUS = ROOT / "deploy" / "prometheus"
ALERTS = PROMETHEUS / "alerts.yaml"
ALERTS_TEST = PROMETHEUS / "alerts_test.yaml"
METRICS_PAGE = ROOT / "docs" / "operate" / "metrics.md"
RUNBOOK = ROOT / "docs" / "operate" / "runbook.md"

for folder in (ROOT / "tests" / "integration", GRAFANA):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
