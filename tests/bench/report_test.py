"""The page of benchmarks: golden tables, sentences chosen by data, plots with equal bytes.

`pytest --update` writes the golden file anew.
"""

import copy
import pathlib
from typing import Any

import facts
import page
import pytest
import report
import tables

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = HERE / "golden/benchmarks.golden"
TEMPLATE = (HERE.parents[1] / "bench/report/benchmarks.template").read_text(encoding="utf-8")
PLOTS = {"train", "cluster", "micro", "growth_rows", "growth_hidden"}
SENTENCE = "<!-- when slow_link_binds -->bound<!-- otherwise -->free<!-- end -->"


@pytest.fixture
def results() -> Any:
    return report.read_results(HERE / "golden/results")


def fill(template: str, results: Any, plots: set[str]) -> str:
    return str(page.fill(template, results, facts.of(results), plots))


def test_the_page_of_small_results_is_the_golden_one(results: Any, update: bool) -> None:
    made = fill(TEMPLATE, results, PLOTS)
    if update:
        GOLDEN.write_text(made, encoding="utf-8")
    assert made == GOLDEN.read_text(encoding="utf-8")


def test_lines_are_short(results: Any) -> None:
    results["train"]["cpu"] = "a processor with a name of many words " * 5
    lines = fill(TEMPLATE, results, PLOTS).split("\n")
    assert [line for line in lines if len(line) > 120 and not line.startswith("|")] == []


def test_a_page_without_results_says_how_to_get_them() -> None:
    text = fill(TEMPLATE, {}, set())
    for name in tables.SECTIONS:
        assert f"`./run bench {name}`" in text
    assert "faster" not in text.replace("faster workers", "")


@pytest.mark.parametrize("wrong", [
    "{{table speed}}", "{{table}}", "<!-- when load_was_high -->a<!-- end -->",
    "<!-- when nice -->a<!-- otherwise -->b<!-- end -->",
])
def test_a_template_may_only_ask_for_what_exists(wrong: str, results: Any) -> None:
    with pytest.raises(page.TemplateError):
        fill(wrong, results, set())


def test_a_sentence_follows_the_figures(results: Any) -> None:
    assert fill(SENTENCE, results, set()).strip() == "bound"
    results["cluster"]["samples_per_second_100mbit"] = 5900.0
    assert fill(SENTENCE, results, set()).strip() == "free"
    del results["cluster"]
    assert fill(SENTENCE, results, set()).strip() == ""


def test_every_fact_is_unknown_without_results() -> None:
    assert set(facts.of({}).values()) == {None}


def test_every_fact_can_be_true_and_false(results: Any) -> None:
    curves = results["growth"]["curves"]
    curves["hidden"]["points"] *= 2
    for curve in ("compact", "shards", "trainers"):
        curves[curve] = copy.deepcopy(curves["rows"])
    slow = copy.deepcopy(results)
    slow_curves = slow["growth"]["curves"]
    for curve in ("rows", "shards", "trainers"):
        slow_curves[curve]["points"].reverse()
    # Turned round, more rows are faster here; fewer rows have to be four times as fast.
    slow_curves["rows"]["points"][-1]["samples_per_second"] *= 2
    # Three quarters of the speed for ten times the rows are cheap, a quarter is not.
    slow_curves["compact"]["points"][-1]["samples_per_second"] /= 3
    # A width at which speed falls.
    slow_curves["hidden"]["points"] = curves["rows"]["points"]
    slow["cluster"]["samples_per_second_100mbit"] = 6000.0
    slow["cluster"]["dense"]["compute_seconds"] = 9.0
    slow["rpc"]["as_set"] = None
    slow["train"]["speedup_vs_dense"] = 0.5
    slow["capacity"]["cases"]["billion"]["bytes_against_plan"] = 1.2
    for result in slow.values():
        result |= {"foreign_load": 0.0, "commit": "one"}
    before, after = facts.of(results), facts.of(slow)
    for name in [fact.__name__ for fact in facts.FACTS]:
        assert {before[name], after[name]} == {True, False}, name


@pytest.mark.parametrize(("value", "text"), [
    (None, "–"), (1234567.8, "1,234,568"), (12.345, "12.3"), (1.2345, "1.23"), (0.01234, "0.012"),
    (0, "0"), (64, "64"), (2000000, "2,000,000"), (0.00001234, "1.23e-05"), ("text", "text"),
])
def test_digits(value: Any, text: str) -> None:
    assert tables.number(value) == text


def test_equal_results_give_equal_bytes(results: Any, tmp_path: pathlib.Path) -> None:
    pytest.importorskip("matplotlib")
    for folder in ("one", "two"):
        assert report.draw(results, tmp_path / folder) == PLOTS
    for plot in PLOTS:
        one, two = ((tmp_path / folder / f"{plot}.svg").read_bytes() for folder in ("one", "two"))
        assert one == two, plot
        assert b"<svg" in one
        assert b"dc:date" not in one
