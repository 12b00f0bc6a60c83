"""Dashboards, alerts and the runbook belong together, and read only metrics that exist.

usage: dashboards_test.py [unittest arguments]     needs no program and no Prometheus; where
promtool is installed it runs the alerts' own tests
"""

import re
import shutil
import subprocess
import unittest

import observability_paths
import dashboards
import make_dashboards

_UNITS = {"Bps", "bytes", "ops", "s", "none", "percentunit"}


class DashboardsTest(unittest.TestCase):
    def test_the_files_are_what_the_program_writes(self):
        self.assertEqual(make_dashboards.stale(), [])
        self.assertEqual(dashboards.names(), sorted(make_dashboards.DASHBOARDS))

    def test_panels_are_complete(self):
        for name in dashboards.names():
            board = dashboards.load(name)
            ids = [panel["id"] for panel in board["panels"]]
            self.assertEqual(len(ids), len(set(ids)), name)
            self.assertEqual(board["uid"], f"dslide-{name}")
            titles = [panel["title"] for panel in dashboards.panels(name)]
            self.assertEqual(len(titles), len(set(titles)), name)
            for panel in dashboards.panels(name):
                with self.subTest(dashboard=name, panel=panel["title"]):
                    self.assertGreater(len(panel["description"]), 10)
                    self.assertIn(panel["fieldConfig"]["defaults"]["unit"], _UNITS)
                    self.assertTrue(panel["targets"])
                    place = panel["gridPos"]
                    self.assertLessEqual(place["x"] + place["w"], 24)

    def test_panels_do_not_overlap(self):
        for name in dashboards.names():
            taken = set()
            for panel in dashboards.load(name)["panels"]:
                place = panel["gridPos"]
                cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                         for y in range(place["y"], place["y"] + place["h"])}
                self.assertFalse(taken & cells, (name, panel["title"]))
                taken |= cells

    def test_queries_read_metrics_that_exist(self):
        known = dashboards.documented()
        for query in dashboards.queries():
            with self.subTest(dashboard=query.dashboard, panel=query.panel):
                found = dashboards.metrics_in(query.expression)
                self.assertTrue(found)
                self.assertEqual(found - known, set())

    def test_rates_follow_the_dashboard(self):
        for query in dashboards.queries():
            for window in re.findall(r"\[([^\]]+)\]", query.expression):
                self.assertEqual(window, "$__rate_interval", query)


class AlertsTest(unittest.TestCase):
    def test_alerts_read_metrics_that_exist(self):
        known = dashboards.documented()
        for name, block in dashboards.alerts():
            expression = re.search(r"^ +expr: (.*)$", block, re.MULTILINE).group(1)
            self.assertEqual(dashboards.metrics_in(expression) - known, set(), name)

    def test_alerts_say_who_acts_and_how(self):
        runbook = observability_paths.RUNBOOK.read_text(encoding="utf-8")
        sections = re.findall(r"^### (\w+)$", runbook, re.MULTILINE)
        names = [name for name, _ in dashboards.alerts()]
        self.assertGreater(len(names), 20)
        self.assertEqual(sorted(sections), sorted(names))
        for name, block in dashboards.alerts():
            with self.subTest(alert=name):
                self.assertRegex(block, r"severity: (page|ticket)\b")
                self.assertRegex(block, r"(?m)^ +summary: \S")
                self.assertRegex(block, r"(?m)^ +description: \S")
                self.assertIn(f"runbook: docs/operate/runbook.md#{name.lower()}\n", block)
                body = runbook.split(f"### {name}\n")[1].split("\n### ")[0]
                self.assertIn("Do:", body)

    def test_every_alert_is_tested(self):
        tests = observability_paths.ALERTS_TEST.read_text(encoding="utf-8")
        tested = re.findall(r"^ +alertname: (\w+)$", tests, re.MULTILINE)
        self.assertEqual(sorted(tested), sorted(name for name, _ in dashboards.alerts()))

    @unittest.skipUnless(shutil.which("promtool"), "promtool is not installed: ./run observability")
    def test_promtool_agrees(self):
        for arguments in (["check", "rules", observability_paths.ALERTS],
                          ["test", "rules", observability_paths.ALERTS_TEST],
                          ["check", "config", observability_paths.PROMETHEUS / "prometheus.yaml"]):
            ended = subprocess.run(["promtool", *map(str, arguments)], capture_output=True,
                                   text=True, check=False, cwd=observability_paths.PROMETHEUS)
            self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)


class HelpersTest(unittest.TestCase):
    def test_metrics_in_ignores_what_is_quoted(self):
        query = 'sum(rate(dslide_a_total{job="dslide_b_total"}[5m])) / grpc_server_c_seconds_sum'
        self.assertEqual(dashboards.metrics_in(query),
                         {"dslide_a_total", "grpc_server_c_seconds_sum"})


if __name__ == "__main__":
    unittest.main()
