"""docs/operate/metrics.md says what the programs export, and what they export is well made.

usage: metrics_reference_test.py --bin-dir DIR [unittest arguments]
"""

import difflib
import re

import observability_paths
import metrics_reference
import processes
from sample_cluster import SampleCluster

# More series of one metric than this are a label that got out of hand.
MOST_SERIES = 2000
_FORBIDDEN_LABELS = {"row", "client", "client_id", "job", "user", "path", "address"}


class MetricsReferenceTest(processes.ProcessTest):
    def test_the_page_is_current_and_the_metrics_are_well_made(self):
        cluster = SampleCluster(self)
        cluster.wait_until_busy()
        pages = cluster.pages()
        for program, families in pages.items():
            for family in families.values():
                with self.subTest(program=program, metric=family.name):
                    self.check(family)
        self.check_people(cluster)
        cluster.stop()
        written = observability_paths.METRICS_PAGE.read_text(encoding="utf-8")
        rendered = metrics_reference.render(pages)
        difference = "\n".join(difflib.unified_diff(
            written.splitlines(), rendered.splitlines(), "docs/operate/metrics.md", "live",
            lineterm=""))
        self.assertEqual(written, rendered, "stale; write it again with "
                         f"tests/observability/metrics_reference.py --bin-dir DIR\n{difference}")

    def check(self, family):
        self.assertRegex(family.name, r"^(dslide|grpc_server|process)_[a-z0-9_]+$")
        self.assertTrue(family.help.strip().endswith("."), f"help is a sentence: {family.help!r}")
        self.assertEqual(family.kind == "counter", family.name.endswith("_total"))
        self.assertLess(family.series, MOST_SERIES)
        self.assertFalse(_FORBIDDEN_LABELS & set(family.labels), family.labels)
        if family.kind == "histogram":
            self.assertNotRegex(family.name, r"_total$")

    def check_people(self, cluster):
        """The page at / of every process is whole, needs no script, and names the other pages."""
        for addresses in cluster.admins().values():
            html = processes.fetch(addresses[0], "/")
            self.assertTrue(html.startswith("<!doctype html>"))
            self.assertTrue(html.rstrip().endswith("</html>"))
            self.assertNotIn("<script", html)
            self.assertIn('href="/metrics"', html)
            self.assertIsNone(re.search(r"\b(nan|inf)\b", html))


if __name__ == "__main__":
    processes.main()
