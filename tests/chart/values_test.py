"""values.yaml, its schema and the table in README.md agree; files/ equals its originals."""

import json
import re
from collections.abc import Iterator
from typing import Any

import chart
import jsonschema
import pytest
import values_readme
import yaml

SCHEMA = json.loads((chart.CHART / "values.schema.json").read_text())
TEXT = (chart.CHART / "values.yaml").read_text()
# The folders of files/ and the originals: a chart cannot read outside its folder.
COPIES = {
    "alerts.yaml": chart.ROOT / "deploy" / "prometheus" / "alerts.yaml",
    **{f"dashboards/{path.name}": path for path in (chart.ROOT / "deploy/grafana").glob("*.json")},
}


def levels(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """(path, schema) of everything in the schema."""
    yield path, node
    for key, inner in node.get("properties", {}).items():
        yield from levels(inner, f"{path}.{key}")


def is_refused(node: Any) -> bool:
    return "refused" in node.get("description", "")


def test_the_schema_is_draft_seven_which_helm_reads() -> None:
    assert SCHEMA["$schema"] == "http://json-schema.org/draft-07/schema#"
    jsonschema.Draft7Validator.check_schema(SCHEMA)


def test_the_defaults_satisfy_the_schema() -> None:
    jsonschema.Draft7Validator(SCHEMA).validate(yaml.safe_load(TEXT))


def test_our_own_levels_are_closed_and_every_value_has_a_type() -> None:
    for path, node in levels(SCHEMA):
        if "properties" in node and path != ".global":
            assert node.get("additionalProperties") is False, path
        assert is_refused(node) or {"type", "enum", "anyOf", "$ref"} & set(node), path


def test_every_value_is_in_the_schema_and_every_name_of_the_schema_is_a_value() -> None:
    def visit(node: Any, values: Any, path: str) -> None:
        names = {key for key, inner in node["properties"].items() if not is_refused(inner)}
        assert names == set(values), path
        for key in names:
            inner = node["properties"][key]
            # Objects of Kubernetes have no names of ours inside.
            if "properties" in inner and key not in ("resources", "updateStrategy"):
                visit(inner, values[key], f"{path}.{key}")

    visit(SCHEMA, yaml.safe_load(TEXT), "")


def test_every_value_is_documented() -> None:
    assert values_readme.undocumented(TEXT) == []


def test_the_table_of_values_is_current(update: bool) -> None:
    readme = values_readme.README.read_text()
    if update:
        readme = values_readme.filled_in(readme, TEXT)
        values_readme.README.write_text(readme)
    assert readme == values_readme.filled_in(readme, TEXT), "run ./run chart --update"


def test_comments_become_rows() -> None:
    text = "a:\n  # -- One\n  b: 1\n  c: 2\n# -- Two | three\nd:\n  e: [x]\n"
    assert list(values_readme.rows(text)) == [
        ("a.b", "`1`", "One"), ("d", '`{"e": ["x"]}`', "Two | three")]
    assert values_readme.undocumented(text) == ["a.c"]
    assert "Two \\| three" in values_readme.table(text)


@pytest.mark.parametrize("name", COPIES)
def test_alerts_and_dashboards_equal_their_originals(name: str, update: bool) -> None:
    copied = chart.CHART / "files" / name
    if update:
        copied.write_text(COPIES[name].read_text())
    assert copied.read_text() == COPIES[name].read_text(), "run ./run chart --update"


def test_dashboards_fit_into_a_config_map_and_under_a_name() -> None:
    paths = list((chart.CHART / "files" / "dashboards").iterdir())
    assert {f"dashboards/{path.name}" for path in paths} | {"alerts.yaml"} == set(COPIES)
    for path in paths:
        json.loads(path.read_text())
        assert path.stat().st_size < 900_000, path.name
        assert re.fullmatch(r"[a-z0-9-]{1,40}", path.stem)


def test_alerts_are_groups_of_rules() -> None:
    rules = yaml.safe_load((chart.CHART / "files" / "alerts.yaml").read_text())
    assert list(rules) == ["groups"]
    for rule in (rule for group in rules["groups"] for rule in group["rules"] if "alert" in rule):
        assert {"alert", "expr", "labels", "annotations"} <= set(rule), rule
        assert "severity" in rule["labels"], rule


def test_the_laptop_learns_with_the_model_of_the_documentation() -> None:
    """And all that it asks for fits into 3 GiB, which leaves Kubernetes one of its four."""
    values = chart.values_of("laptop")
    documented = json.loads((chart.ROOT / "docs/models/debian-packages.json").read_text())
    assert values["trainer"]["model"] == documented
    limits = {part: values[part]["resources"]["limits"]["memory"]
              for part in ("shard", "coordinator", "trainer", "serve")}
    mebibytes = {name: int(text[:-2]) * {"Mi": 1, "Gi": 1024}[text[-2:]]
                 for name, text in limits.items()}
    assert sum(mebibytes.values()) <= 3 * 1024
    assert all(values[part]["replicaCount"] == 1 for part in ("shard", "trainer", "serve"))
