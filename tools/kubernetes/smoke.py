"""Install, train, test, uninstall."""

from __future__ import annotations

from release import Release
from steps import Steps, check_job

JOB = "first-run"  # and its epochs: values.yaml
EPOCHS = 4


def smoke(release: Release, steps: Steps) -> None:
    steps("install", lambda: release.apply("install"))
    steps("train", release.wait_for_training)
    check_job(release.job(JOB), EPOCHS)
    steps("helm test", release.test)
    steps("uninstall", release.remove)
