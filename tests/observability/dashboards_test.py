"""Dashboards, alerts and the runbook belong together, and read only metrics that exist.

Needs no program and no Prometheus; where promtool is installed it runs the alerts' own tests.
"""

import re
import shutil
import subprocess

import dashboards
import make_dashboards
import pytest

UNITS = {"Bps", "bytes", "ops", "s", "none", "percentunit"}
RUNBOOK = (dashboards.ROOT / "docs" / "operate" / "runbook.md").read_text(encoding="utf-8")
every_dashboard = pytest.mark.parametrize("name", dashboards.names())
every_alert = pytest.mark.parametrize("name", dashboards.alerts())


def test_the_files_are_what_the_program_writes() -> None:
    assert make_dashboards.stale() == []
    assert dashboards.names() == sorted(make_dashboards.DASHBOARDS)


@every_dashboard
def test_panels_are_complete(name: str) -> None:
    board, panels = dashboards.load(name), dashboards.panels(name)
    assert board["uid"] == f"dslide-{name}"
    for of_all in ([panel["id"] for panel in board["panels"]],
                   [panel["title"] for panel in panels]):
        assert len(of_all) == len(set(of_all))
    for panel in panels:
        assert len(panel["description"]) > 10, panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS, panel["title"]
        assert panel["targets"], panel["title"]
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24, panel["title"]


@every_dashboard
def test_panels_do_not_overlap(name: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboards.load(name)["panels"]:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                 for y in range(place["y"], place["y"] + place["h"])}
        assert not taken & cells, panel["title"]
        taken |= cells


def test_queries_read_metrics_that_exist_at_the_dashboards_rate() -> None:
    known = dashboards.documented()
    for query in dashboards.queries():
        found = dashboards.metrics_in(query.expression)
        assert found and found <= known, query
        assert set(re.findall(r"\[([^\]]+)\]", query.expression)) <= {"$__rate_interval"}, query


def test_every_metric_is_of_the_chosen_processes_and_jobs() -> None:
    assert make_dashboards.chosen('rate(dslide_a_total{x="1"}[5m]) / dslide_job_b') == (
        'rate(dslide_a_total{x="1",namespace=~"$namespace",dslide_cluster=~"$dslide_cluster",'
        'pod=~"$pod",instance=~"$instance"}[5m]) / dslide_job_b{namespace=~"$namespace",'
        'dslide_cluster=~"$dslide_cluster",pod=~"$pod",instance=~"$instance",'
        'job_name=~"$job_name"}')
    board = dashboards.load("training")
    known = {variable["name"] for variable in board["templating"]["list"]}
    used = re.findall(r"\$(\w+)", " ".join(query.expression for query in dashboards.queries()))
    assert set(used) == known - {"datasource"} | {"__rate_interval"}


@every_alert
def test_alerts_read_metrics_that_exist(name: str) -> None:
    assert dashboards.metrics_in(dashboards.alerts()[name]["expr"]) <= dashboards.documented()


@every_alert
def test_alerts_say_who_acts_and_how(name: str) -> None:
    rule = dashboards.alerts()[name]
    assert rule["labels"]["severity"] in ("page", "ticket")
    assert rule["annotations"]["summary"] and rule["annotations"]["description"]
    assert rule["annotations"]["runbook_url"] == f"docs/operate/runbook.md#{name.lower()}"
    assert "Do:" in RUNBOOK.split(f"### {name}\n")[1].split("\n### ")[0]


def test_every_alert_is_in_the_runbook_and_tested() -> None:
    alerts = sorted(dashboards.alerts())
    assert len(alerts) > 20
    assert sorted(re.findall(r"^### (\w+)$", RUNBOOK, re.MULTILINE)) == alerts
    tests = (dashboards.PROMETHEUS / "alerts_test.yaml").read_text(encoding="utf-8")
    assert sorted(set(re.findall(r"^ +alertname: (\w+)$", tests, re.MULTILINE))) == alerts


@pytest.mark.skipif(not shutil.which("promtool"),
                    reason="promtool is not installed: ./run observability")
@pytest.mark.parametrize("arguments", [
    "check rules alerts.yaml", "test rules alerts_test.yaml", "check config prometheus.yaml"])
def test_promtool_agrees(arguments: str) -> None:
    ended = subprocess.run(["promtool", *arguments.split()], capture_output=True, text=True,
                           check=False, cwd=dashboards.PROMETHEUS)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_metrics_in_ignores_what_is_quoted() -> None:
    query = 'sum(rate(dslide_a_total{job="dslide_b_total"}[5m])) / grpc_server_c_seconds_sum'
    assert dashboards.metrics_in(query) == {"dslide_a_total", "grpc_server_c_seconds_sum"}
