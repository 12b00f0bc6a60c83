"""The Prometheus operator makes a Prometheus of the chart's monitors and rules: everything is
scraped, every panel shows data while a job trains, and alerts cry when they have a cause only."""

from __future__ import annotations

import pathlib
import sys

import dashboard_queries
import hasty_rules
from alert_causes import Alarm, causes
from cluster import Cluster, ClusterError, wait_until
from issued_certificates import IssuedCertificates
from late_objects import apply_when_possible
from prometheus import Prometheus
from release import RELEASE, Release
from steps import Steps

JOB = "monitored"
TRAINERS = 2
_FOLDER = pathlib.Path(__file__).parent
# The certificates are those of cert-manager, as of its scenario, but last as long as usual.
VALUES = [_FOLDER / "issued.yaml", _FOLDER / "monitored.yaml"]
PROMETHEUS = _FOLDER / "prometheus.yaml"
# Held-out points and hash tables, by which every part of the training shows itself; until the
# release goes.
TRAINING = (f"trainer.job={JOB}",
            f"trainer.extraArgs={{--name={JOB},--dim=32,--epochs=100000,--patience=0,"
            "--max-active=200,--batch-size=64,--learning-rate=0.002,--seed=1}",
            "trainer.resources.limits.cpu=200m")
SERVICE_MONITOR = ("metrics.podMonitor.enabled=false", "metrics.serviceMonitor.enabled=true")
SERVERS = {f"{RELEASE}-coordinator-0", f"{RELEASE}-shard-0", f"{RELEASE}-shard-1"}


def install(cluster: Cluster, bundle: pathlib.Path) -> None:
    # Its definitions are larger than what a client may note about them.
    apply_when_possible(cluster, bundle, "--server-side")
    apply_when_possible(cluster, PROMETHEUS)


class _Watch:
    """What the Prometheus has to say of the release."""

    def __init__(self, prometheus: Prometheus, release: Release) -> None:
        self._prometheus = prometheus
        self._release = release
        self._empty = dashboard_queries.read(release)
        self._queries = len(self._empty)
        if not self._queries:
            raise ClusterError("the release has brought no dashboards")

    def _is_scraped(self, trainers: int) -> bool:
        """All servers and as many trainers, and nothing else, are up."""
        healths = self._prometheus.healths()
        return (set(healths) >= SERVERS and len(healths) == len(SERVERS) + trainers
                and set(healths.values()) == {"up"})

    def wait_for_targets(self, trainers: int) -> None:
        try:
            wait_until(lambda: self._is_scraped(trainers), "every monitor is up")
        except ClusterError as error:
            raise ClusterError(f"{error}: {self._prometheus.healths()}") from None

    def _loaded(self, others: int) -> bool:
        wanted = sum(len(group["rules"]) for item in self._release.get("prometheusrules")
                     for group in item["spec"]["groups"])
        rules = self._prometheus.rules()
        return bool(wanted) and len(rules) == wanted + others and all(
            rule["health"] == "ok" for rule in rules)

    def wait_for_rules(self, others: int = 0) -> None:
        """All of the release, and as many others."""
        wait_until(lambda: self._loaded(others), "every rule is loaded and was evaluated well")
        print(f"   {len(self._prometheus.rules())} rules", file=sys.stderr)

    def _all_have_data(self) -> bool:
        """Asks only for those that had none when it was called before."""
        self._empty = [query for query in self._empty
                       if not self._prometheus.has_data(query.expression)]
        return not self._empty

    def wait_for_data(self) -> None:
        try:
            wait_until(self._all_have_data, "every panel shows data")
        except ClusterError as error:
            panels = sorted({f"{query.dashboard}: {query.panel}" for query in self._empty})
            raise ClusterError(f"{error}; these do not: {panels}") from None
        print(f"   {self._queries} queries of panels have data", file=sys.stderr)

    def _is_silent(self) -> bool:
        """No alert is even on its way."""
        if firing := self._prometheus.alerts("firing"):
            raise ClusterError(f"alerts fire in a cluster that is well: {firing}")
        return not self._prometheus.alerts("pending")

    def wait_for_silence(self) -> None:
        """Of what happens while pods come and go nothing may last, or even fire."""
        try:
            wait_until(self._is_silent, "no alert is pending")
        except ClusterError as error:
            raise ClusterError(f"{error}: {self._prometheus.alerts('pending')}") from None


def live_with_prometheus(cluster: Cluster, dslide: pathlib.Path, bundle: pathlib.Path,
                         steps: Steps) -> None:
    """Where cert_manager.provide_issuers() has been."""
    certificates = IssuedCertificates(cluster)
    release = Release(cluster, dslide, VALUES, certificates.login())
    prometheus = Prometheus(cluster)
    steps("prometheus: its own install", lambda: install(cluster, bundle))
    steps("prometheus: install", lambda: release.apply("install", *TRAINING, *SERVICE_MONITOR))
    steps("prometheus: it answers", lambda: wait_until(
        prometheus.answers, "the operator's Prometheus answers"))
    watch = _Watch(prometheus, release)
    steps("prometheus: service monitor", lambda: watch.wait_for_targets(0))
    steps("prometheus: rules", watch.wait_for_rules)
    steps("prometheus: silence with it", watch.wait_for_silence)
    steps("prometheus: pod monitor instead", lambda: release.apply("upgrade", *TRAINING))
    steps("prometheus: pod monitor", lambda: watch.wait_for_targets(TRAINERS))
    steps("prometheus: panels", watch.wait_for_data)
    steps("prometheus: silence", watch.wait_for_silence)
    hasty_rules.add(cluster, release)
    steps("prometheus: more rules", lambda: watch.wait_for_rules(len(hasty_rules.CHANGES)))
    alarm = Alarm(prometheus, steps)
    for cause in causes(release, TRAINING):
        alarm(cause)
    steps("prometheus: uninstall", release.remove)
