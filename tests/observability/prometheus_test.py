"""A real Prometheus scrapes a cluster at work: every query of every dashboard returns data.

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
from typing import Any

import dashboards
import processes
import pytest
from processes import Programs
from prometheus_server import RATE_WINDOW, PrometheusServer
from sample_cluster import SampleCluster

# What pictures show.
WATCH_SECONDS = 20
MISSING = [tool for tool in ("prometheus", "promtool") if shutil.which(tool) is None]
PICTURES = os.environ.get("DSLIDE_OBSERVABILITY_PICTURES")
RESULT = os.environ.get("DSLIDE_OBSERVABILITY_RESULT")


def wait_for_data(prometheus: PrometheusServer) -> list[dashboards.Query]:
    """The queries that have none, when all have some or after a while."""
    deadline = time.monotonic() + processes.PATIENCE_SECONDS
    while True:
        empty = [query for query in dashboards.queries()
                 if not prometheus.get("query", query=query.ready(RATE_WINDOW))["result"]]
        if not empty or time.monotonic() > deadline:
            return empty
        time.sleep(1)


def evaluated_rules(prometheus: PrometheusServer) -> list[Any]:
    """All rules, once each was looked at."""
    groups = prometheus.get("rules")["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    return rules if all(rule["health"] != "unknown" for rule in rules) else []


def lint(cluster: SampleCluster) -> list[str]:
    """What promtool has to say about the pages."""
    findings = []
    for addresses in cluster.admins.values():
        ended = subprocess.run(["promtool", "check", "metrics"], text=True, check=False,
                               input=processes.fetch(addresses[0]), capture_output=True)
        findings += (ended.stdout + ended.stderr).split("\n")
    return [line for line in findings if line.strip()]


def draw(cluster: SampleCluster, prometheus: PrometheusServer, start: float,
         folder: pathlib.Path, scratch: pathlib.Path) -> None:
    import pictures  # needs matplotlib, which tests without pictures do without

    time.sleep(WATCH_SECONDS)
    pictures.draw_dashboards(prometheus, start, time.time(), folder)
    pictures.shoot_page(f"http://{cluster.shards[0].admin}/", folder / "shard-page.png", scratch)


@pytest.mark.skipif(bool(MISSING),
                    reason=f"{' and '.join(MISSING)} not installed: ./run observability")
@pytest.mark.usefixtures("bin_dir")
def test_dashboards_have_data_and_pages_are_clean(
        programs: Programs, tmp_path: pathlib.Path) -> None:
    cluster = SampleCluster(programs)
    prometheus = PrometheusServer(programs, cluster.admins)
    start = time.time()
    empty, findings = wait_for_data(prometheus), lint(cluster)
    rules = processes.wait_until(lambda: evaluated_rules(prometheus), lambda: "all rules")
    alerts = prometheus.get("alerts")["alerts"]
    if RESULT:
        queries = len(dashboards.queries())
        figures = {"queries": queries, "non_empty": queries - len(empty), "alerts": len(rules),
                   "promtool_findings": len(findings)}
        pathlib.Path(RESULT).write_text(json.dumps(figures) + "\n", encoding="utf-8")
    if PICTURES:
        draw(cluster, prometheus, start, pathlib.Path(PICTURES), tmp_path)
    cluster.stop()
    prometheus.process.stop()
    assert empty == []
    assert findings == []
    assert [rule["name"] for rule in rules if rule["health"] != "ok"] == []
    # In a healthy, small and young cluster on loopback.
    assert [alert for alert in alerts if alert["state"] == "firing"] == []
    assert len(rules) == len(dashboards.alerts())
