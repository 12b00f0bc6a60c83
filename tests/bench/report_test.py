"""The page of benchmarks: golden tables, sentences chosen by data, plots with equal bytes.

usage: report_test.py [--update]       --update rewrites the golden file
"""

import copy
import pathlib
import sys
import tempfile
import unittest

_HERE = pathlib.Path(__file__).resolve().parent
_REPORT = _HERE.parents[1] / "bench/report"
sys.path.insert(0, str(_REPORT))

import facts  # noqa: E402
import page  # noqa: E402
import report  # noqa: E402
import tables  # noqa: E402

_GOLDEN = _HERE / "golden/benchmarks.golden"
_PLOTS = {"train", "cluster", "micro", "growth_rows", "growth_hidden"}


def golden_results():
    return report.read_results(_HERE / "golden/results")


def real_template():
    return (_REPORT / "benchmarks.template").read_text(encoding="utf-8")


def page_of(results):
    return page.fill(real_template(), results, facts.of(results), _PLOTS)


class PageTest(unittest.TestCase):
    def test_the_page_of_small_results_is_the_golden_one(self):
        self.assertEqual(page_of(golden_results()), _GOLDEN.read_text(encoding="utf-8"))

    def test_lines_are_short(self):
        results = golden_results()
        results["train"]["cpu"] = "a processor with a name of many words " * 5
        lines = page_of(results).split("\n")
        self.assertFalse([line for line in lines if len(line) > 120 and not line.startswith("|")])

    def test_a_page_without_results_says_how_to_get_them(self):
        text = page.fill(real_template(), {}, facts.of({}), set())
        for name in tables.SECTIONS:
            self.assertIn(f"`./run bench {name}`", text)
        self.assertNotIn("faster", text.replace("faster workers", ""))

    def test_a_template_may_only_ask_for_what_exists(self):
        for wrong in ("{{table speed}}", "{{table}}", "<!-- when nice -->a<!-- otherwise -->b<!-- end -->",
                      "<!-- when load_was_high -->a<!-- end -->"):
            with self.subTest(template=wrong), self.assertRaises(page.TemplateError):
                page.fill(wrong, golden_results(), facts.of(golden_results()), set())


class FactsTest(unittest.TestCase):
    SENTENCE = "<!-- when slow_link_binds -->bound<!-- otherwise -->free<!-- end -->"

    def sentence(self, results):
        return page.fill(self.SENTENCE, results, facts.of(results), set()).strip()

    def test_a_sentence_follows_the_figures(self):
        results = golden_results()
        self.assertEqual(self.sentence(results), "bound")
        results["cluster"]["samples_per_second_100mbit"] = 5900.0
        self.assertEqual(self.sentence(results), "free")
        del results["cluster"]
        self.assertEqual(self.sentence(results), "")

    def test_every_fact_is_unknown_without_results(self):
        self.assertEqual(set(facts.of({}).values()), {None})

    def test_every_fact_can_be_true_and_false(self):
        results = golden_results()
        results["growth"]["curves"]["hidden"]["points"] *= 2
        for curve in ("compact", "shards", "trainers"):
            results["growth"]["curves"][curve] = copy.deepcopy(results["growth"]["curves"]["rows"])
        slow = copy.deepcopy(results)
        turned = [slow["growth"]["curves"][curve]["points"].reverse() for curve in
                  ("rows", "shards", "trainers")]
        self.assertEqual(len(turned), 3)
        # Turned round, more rows are faster here; fewer rows have to be four times as fast.
        slow["growth"]["curves"]["rows"]["points"][-1]["samples_per_second"] *= 2
        # Three quarters of the speed for ten times the rows are cheap, a quarter is not.
        slow["growth"]["curves"]["compact"]["points"][-1]["samples_per_second"] /= 3
        # A width at which speed falls.
        slow["growth"]["curves"]["hidden"]["points"] = results["growth"]["curves"]["rows"]["points"]
        slow["cluster"] |= {"samples_per_second_100mbit": 6000.0}
        slow["cluster"]["dense"] |= {"compute_seconds": 9.0}
        slow["rpc"] |= {"as_set": None}
        slow["train"] |= {"speedup_vs_dense": 0.5}
        slow["capacity"]["cases"]["billion"] |= {"bytes_against_plan": 1.2}
        for result in slow.values():
            result |= {"foreign_load": 0.0, "commit": "one"}
        before, after = facts.of(results), facts.of(slow)
        for name in [fact.__name__ for fact in facts.FACTS]:
            self.assertEqual({before[name], after[name]}, {True, False}, name)


class NumberTest(unittest.TestCase):
    def test_digits(self):
        for value, text in [(None, "–"), (1234567.8, "1,234,568"), (12.345, "12.3"), (1.2345, "1.23"),
                            (0.01234, "0.012"), (0, "0"), (64, "64"), (2000000, "2,000,000"),
                            (0.00001234, "1.23e-05"), ("text", "text")]:
            with self.subTest(value=value):
                self.assertEqual(tables.number(value), text)


class PlotsTest(unittest.TestCase):
    def test_equal_results_give_equal_bytes(self):
        try:
            import plots  # noqa: F401
        except ImportError as error:
            self.skipTest(f"needs python3-matplotlib: {error}")
        with tempfile.TemporaryDirectory(prefix="dslide-report-") as scratch:
            directories = [pathlib.Path(scratch, name) for name in ("one", "two")]
            for directory in directories:
                self.assertEqual(report.draw(golden_results(), directory), _PLOTS)
            for plot in sorted(_PLOTS):
                one, two = ((directory / f"{plot}.svg").read_bytes() for directory in directories)
                self.assertEqual(one, two, plot)
                self.assertIn(b"<svg", one)
                self.assertNotIn(b"dc:date", one)


if __name__ == "__main__":
    if "--update" in sys.argv:
        _GOLDEN.write_text(page_of(golden_results()), encoding="utf-8")
        sys.exit(0)
    result = unittest.main(exit=False).result
    for test, reason in result.skipped:
        print(f"SKIPPED {test.id()}: {reason}", flush=True)
    sys.exit(0 if result.wasSuccessful() else 1)
