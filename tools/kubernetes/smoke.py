"""Install, train, test, uninstall."""

from __future__ import annotations

import pathlib

from cluster import Cluster
from release import Release
from steps import Steps, check_job

JOB = "first-run"  # and its epochs: values.yaml
EPOCHS = 4


def smoke(cluster: Cluster, dslide: pathlib.Path, steps: Steps) -> None:
    release = Release(cluster, dslide, login=["--insecure"])
    # Trainers have no data of their own; other scenarios give it to each.
    steps("install", lambda: release.apply("install", "trainer.dataset.server.enabled=true"))
    steps("train", release.wait_for_training)
    check_job(release.job(JOB), EPOCHS)
    steps("helm test", release.test)
    steps("uninstall", release.remove)
