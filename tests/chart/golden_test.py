"""Every file of values renders the objects that stand in golden/, field by field.

usage: golden_test.py [--update]     --update rewrites golden/ from what is rendered now
"""

import sys
import unittest

import chart
import yaml

GOLDEN = chart.ROOT / "tests" / "chart" / "golden"


def canonical(objects):
    """One text for equal objects, whoever rendered them: sorted, without comments."""
    ordered = sorted(objects, key=lambda item: (item["kind"], item["metadata"]["name"]))
    return yaml.safe_dump_all(ordered, sort_keys=True, width=110, allow_unicode=True)


def without_copies(objects):
    """The objects less the texts of files/, which have an owner elsewhere and a test of their own."""
    for item in objects:
        if item["kind"] == "PrometheusRule":
            item["spec"] = {"groups": "those of files/alerts.yaml"}
    return [item for item in objects if "-dashboard-" not in item["metadata"]["name"]]


class GoldenTest(unittest.TestCase):
    maxDiff = None

    def test_every_values_file_renders_its_golden_objects(self):
        for name, objects in chart.every_ci():
            with self.subTest(values=name):
                path = GOLDEN / f"{name}.yaml"
                self.assertTrue(path.exists(), f"{path} is missing: golden_test.py --update writes it")
                self.assertEqual(
                    canonical(without_copies(objects)), path.read_text(),
                    "the rendered objects changed; if that is meant: /usr/bin/python3 tests/chart/golden_test.py --update",
                )

    def test_every_golden_file_has_its_values_file(self):
        self.assertEqual({path.stem for path in GOLDEN.glob("*.yaml")}, {name for name, _ in chart.every_ci()})


def update():
    GOLDEN.mkdir(exist_ok=True)
    for path in GOLDEN.glob("*.yaml"):
        path.unlink()
    for name, objects in chart.every_ci():
        (GOLDEN / f"{name}.yaml").write_text(canonical(without_copies(objects)))
        print(f"wrote golden/{name}.yaml")


if __name__ == "__main__":
    if sys.argv[1:] == ["--update"]:
        update()
    else:
        chart.renderer()
        chart.run_tests()
