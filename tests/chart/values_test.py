"""values.yaml, its schema and the table in README.md agree; files/ equals its originals."""

import json
import re
import sys
import unittest

# First, as it says when python3-yaml is missing.
import chart

try:
    import jsonschema
except ImportError:
    print("skipped: python3-jsonschema is not installed (./run chart installs it)")
    sys.exit(77)
import yaml

import values_readme

DEPLOY = chart.ROOT / "deploy"


def schema():
    return json.loads((chart.CHART / "values.schema.json").read_text())


def values_text():
    return (chart.CHART / "values.yaml").read_text()


def is_object(node):
    return "object" in (node["type"] if isinstance(node.get("type"), list) else [node.get("type")])


class SchemaTest(unittest.TestCase):
    def test_the_schema_is_draft_seven_which_helm_reads(self):
        self.assertEqual(schema()["$schema"], "http://json-schema.org/draft-07/schema#")
        jsonschema.Draft7Validator.check_schema(schema())

    def test_the_defaults_satisfy_the_schema(self):
        problems = list(jsonschema.Draft7Validator(schema()).iter_errors(yaml.safe_load(values_text())))
        self.assertEqual([], [problem.message for problem in problems])

    def test_our_own_levels_are_closed(self):
        def visit(node, path):
            if "properties" in node and path != ["global"]:
                self.assertIs(node.get("additionalProperties"), False, ".".join(path))
            for key, inner in node.get("properties", {}).items():
                visit(inner, path + [key])

        visit(schema(), [])

    def test_every_value_is_in_the_schema_and_every_name_of_the_schema_is_a_value(self):
        def visit(node, values, path):
            names = {key for key, inner in node["properties"].items() if "refused" not in inner.get("description", "")}
            self.assertEqual(names, set(values), ".".join(path))
            for key in names:
                inner = node["properties"][key]
                # Objects of Kubernetes have no names of ours inside.
                if "properties" in inner and key not in ("resources", "updateStrategy"):
                    visit(inner, values[key], path + [key])

        visit(schema(), yaml.safe_load(values_text()), [])

    def test_every_value_has_a_type(self):
        def visit(node, path):
            refused = "refused" in node.get("description", "")
            self.assertTrue(refused or {"type", "enum", "anyOf"} & set(node), ".".join(path))
            for key, inner in node.get("properties", {}).items():
                visit(inner, path + [key])

        visit(schema(), [])


class ReadmeTest(unittest.TestCase):
    def test_every_value_is_documented(self):
        self.assertEqual([], list(values_readme.undocumented(values_text())))

    def test_the_table_of_values_is_current(self):
        readme = values_readme.README.read_text()
        self.assertEqual(
            readme, values_readme.filled_in(readme, values_text()),
            "run /usr/bin/python3 tests/chart/values_readme.py",
        )

    def test_comments_become_rows(self):
        text = "a:\n  # -- One\n  b: 1\n  c: 2\n# -- Two | three\nd:\n  e: [x]\n"
        self.assertEqual(list(values_readme.rows(text)), [("a.b", "`1`", "One"), ("d", '`{"e": ["x"]}`', "Two | three")])
        self.assertEqual(list(values_readme.undocumented(text)), ["a.c"])
        self.assertIn("Two \\| three", values_readme.table(text))


class CopiesTest(unittest.TestCase):
    """A chart cannot read outside its folder, so it has copies; ./run chart --update renews them."""

    def test_alerts_equal_their_original(self):
        original = DEPLOY / "prometheus" / "alerts.yaml"
        self.assertEqual(original.read_text(), (chart.CHART / "files" / "alerts.yaml").read_text(), "run ./run chart --update")

    def test_dashboards_equal_their_originals(self):
        originals = {path.name: path.read_text() for path in (DEPLOY / "grafana").glob("*.json")}
        self.assertTrue(originals)
        copies = {path.name: path.read_text() for path in (chart.CHART / "files" / "dashboards").glob("*.json")}
        self.assertEqual(originals, copies, "run ./run chart --update")

    def test_alerts_are_groups_of_rules(self):
        rules = yaml.safe_load((chart.CHART / "files" / "alerts.yaml").read_text())
        self.assertEqual(list(rules), ["groups"])
        for group in rules["groups"]:
            for rule in group["rules"]:
                if "alert" in rule:
                    self.assertLessEqual({"alert", "expr", "labels", "annotations"}, set(rule), rule)
                    self.assertIn("severity", rule["labels"])

    def test_dashboards_fit_into_a_config_map_and_under_a_name(self):
        for path in (chart.CHART / "files" / "dashboards").glob("*.json"):
            json.loads(path.read_text())
            self.assertLess(path.stat().st_size, 900_000, path.name)
            self.assertRegex(path.stem, re.compile(r"^[a-z0-9-]{1,40}$"))


if __name__ == "__main__":
    chart.run_tests()
