"""A real Prometheus scrapes a cluster at work: every query of every dashboard returns data.

usage: prometheus_test.py --bin-dir DIR [unittest arguments]

Skipped, loudly, where prometheus or promtool is not installed; ./run observability installs them.
DSLIDE_OBSERVABILITY_RESULT names a file for the figures, DSLIDE_OBSERVABILITY_PICTURES a folder for
pictures of the dashboards (needs matplotlib) and of a shard's page (needs chromium).
"""

import json
import os
import pathlib
import shutil
import subprocess
import time
import unittest

import observability_paths  # noqa: F401  (finds the modules below)
import dashboards
import processes
from prometheus_server import RATE_WINDOW, PrometheusServer
from sample_cluster import SampleCluster

# What pictures show.
WATCH_SECONDS = 20
# What may fire in a healthy, small and young cluster on loopback: nothing.
MISSING = [tool for tool in ("prometheus", "promtool") if shutil.which(tool) is None]


@unittest.skipIf(MISSING, f"{' and '.join(MISSING)} not installed: ./run observability")
class PrometheusTest(processes.ProcessTest):
    def test_dashboards_have_data_and_pages_are_clean(self):
        cluster = SampleCluster(self)
        cluster.wait_until_busy()
        prometheus = PrometheusServer(self, cluster.admins())
        prometheus.wait_until_scraped()
        start = time.time()
        empty = self.wait_for_data(prometheus)
        findings = self.lint(cluster)
        rules = processes.wait_until(lambda: self.evaluated(prometheus), lambda: "all rules")
        firing = [alert["labels"]["alertname"] for alert in prometheus.get("alerts")["alerts"]
                  if alert["state"] == "firing"]
        queries = dashboards.queries()
        self.keep({"queries": len(queries), "non_empty": len(queries) - len(empty),
                   "alerts": sum(len(group["rules"]) for group in rules),
                   "promtool_findings": len(findings)})
        self.draw(cluster, prometheus, start)
        cluster.stop()
        prometheus.process.stop()
        self.assertEqual(empty, [])
        self.assertEqual(findings, [])
        self.assertEqual([rule["name"] for group in rules for rule in group["rules"]
                          if rule["health"] != "ok"], [])
        self.assertEqual(firing, [])
        self.assertEqual(sum(len(group["rules"]) for group in rules), len(dashboards.alerts()))

    def wait_for_data(self, prometheus):
        """The queries that have none, when all have some or after a while."""
        deadline = time.monotonic() + processes.PATIENCE_SECONDS
        while True:
            empty = [f"{query.dashboard}: {query.panel}: {query.expression}"
                     for query in dashboards.queries()
                     if not prometheus.query(query.ready(RATE_WINDOW))]
            if not empty or time.monotonic() > deadline:
                return empty
            time.sleep(1)

    @staticmethod
    def evaluated(prometheus):
        """The groups of rules, once each rule was looked at."""
        groups = prometheus.get("rules")["groups"]
        done = all(rule["health"] != "unknown" for group in groups for rule in group["rules"])
        return groups if done else None

    def lint(self, cluster):
        """What promtool has to say about the pages."""
        findings = []
        for program, addresses in cluster.admins().items():
            ended = subprocess.run(["promtool", "check", "metrics"], text=True, check=False,
                                   input=processes.fetch(addresses[0]), capture_output=True)
            lines = (ended.stdout + ended.stderr).splitlines()
            findings += [f"{program}: {line}" for line in lines if line.strip()]
        return findings

    def keep(self, figures):
        path = os.environ.get("DSLIDE_OBSERVABILITY_RESULT")
        if path:
            pathlib.Path(path).write_text(json.dumps(figures) + "\n", encoding="utf-8")

    def draw(self, cluster, prometheus, start):
        folder = os.environ.get("DSLIDE_OBSERVABILITY_PICTURES")
        if not folder:
            return
        time.sleep(WATCH_SECONDS)
        import pictures  # needs matplotlib, which tests without pictures do without
        pictures.draw_dashboards(prometheus, start, time.time(), pathlib.Path(folder))
        pictures.shoot_page(f"http://{cluster.shards[0].admin}/",
                            pathlib.Path(folder) / "shard-page.png", self.directory)


if __name__ == "__main__":
    processes.main()
