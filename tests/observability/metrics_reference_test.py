"""docs/operate/metrics.md says what the programs export, and what they export is well made.

`pytest --update` writes the page anew.
"""

import re

import dashboards
import metrics_reference
import processes
import pytest
from metrics_text import Family
from processes import Programs
from sample_cluster import SampleCluster

# More series of one metric than this are a label that got out of hand.
MOST_SERIES = 2000
FORBIDDEN_LABELS = {"row", "client", "client_id", "job", "user", "path", "address"}


def check_metric(family: Family) -> None:
    assert re.fullmatch(r"(dslide|grpc_server|process)_[a-z0-9_]+", family.name)
    assert family.help.strip().endswith("."), f"help is a sentence: {family}"
    assert (family.kind == "counter") == family.name.endswith("_total"), family
    assert family.series < MOST_SERIES, family.name
    assert not FORBIDDEN_LABELS & set(family.labels), family


def check_page_for_people(address: str) -> None:
    """It is whole, needs no script, and names the other pages."""
    html = processes.fetch(address, "/")
    assert html.startswith("<!doctype html>")
    assert html.rstrip().endswith("</html>")
    assert "<script" not in html
    assert 'href="/metrics"' in html
    assert not re.search(r"\b(nan|inf)\b", html)


@pytest.mark.usefixtures("bin_dir")
def test_the_page_is_current_and_the_metrics_are_well_made(
        programs: Programs, update: bool) -> None:
    cluster = SampleCluster(programs)
    cluster.start_serving()
    cluster.start_secured()
    pages = cluster.pages()
    for addresses in cluster.admins.values():
        check_page_for_people(addresses[0])
    cluster.stop()
    for families in pages.values():
        for family in families.values():
            check_metric(family)
    live = metrics_reference.render(pages)
    if update:
        dashboards.METRICS_PAGE.write_text(live, encoding="utf-8")
    written = dashboards.METRICS_PAGE.read_text(encoding="utf-8")
    assert written.splitlines() == live.splitlines(), "stale; --update writes it anew"
