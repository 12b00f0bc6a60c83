"""Every file of values renders the objects that stand in golden/, field by field.

`./run chart --update` rewrites golden/ from what is rendered.
"""

import chart
import pytest
import yaml

GOLDEN = chart.ROOT / "tests" / "chart" / "golden"


def rendered(values: str) -> str:
    """One text for equal objects: sorted, without comments and without the texts of files/, which
    have an owner elsewhere and a test of their own."""
    objects = [item for item in chart.render_ci(values)
               if "-dashboard-" not in item.metadata.name]
    for item in objects:
        if item.kind == "PrometheusRule":
            item["spec"] = {"groups": "those of files/alerts.yaml"}
    objects.sort(key=lambda item: (item.kind, item.metadata.name))
    return str(yaml.safe_dump_all(objects, sort_keys=True, width=110, allow_unicode=True))


@pytest.mark.parametrize("values", chart.CI_NAMES)
def test_every_values_file_renders_its_golden_objects(values: str, update: bool) -> None:
    path = GOLDEN / f"{values}.yaml"
    if update:
        path.write_text(rendered(values))
    assert rendered(values) == path.read_text(), \
        "the rendered objects changed; if that is meant: ./run chart --update"


def test_every_golden_file_has_its_values_file() -> None:
    assert sorted(path.stem for path in GOLDEN.glob("*.yaml")) == chart.CI_NAMES
