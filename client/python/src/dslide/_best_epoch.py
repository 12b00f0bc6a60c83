"""The best epoch of a job, which the shards keep as a checkpoint of the model."""

from __future__ import annotations

from dslide._progress import Progress
from dslide.client import Model
from dslide.errors import FailedPreconditionError, NotFoundError, UnimplementedError

_LONGEST_NAME = 64


def best_checkpoint(job: str) -> str:
    """The checkpoint of the model that holds the best epoch of a job."""
    name = f"best-{job}"
    if len(name) <= _LONGEST_NAME:
        return name
    fnv = 2166136261
    for byte in job.encode():
        fnv = (fnv ^ byte) * 16777619 % 2**32
    return f"best-{job[:50]}-{fnv:08x}"


class BestEpoch:
    """Keeps it and restores it, as far as the shards can; `progress` is told what they cannot."""

    def __init__(self, model: Model, job: str, progress: Progress) -> None:
        self._model, self._progress = model, progress
        self._name = best_checkpoint(job)
        self._can_be_kept = True

    def keep(self) -> None:
        """The rows as they are now."""
        if not self._can_be_kept:
            return
        try:
            self._model.save_checkpoint(self._name)
        except (FailedPreconditionError, UnimplementedError) as error:
            self._can_be_kept = False
            self._progress.say(
                f"NOTE: the best epoch cannot be kept, the result will be the last one: "
                f"{error}. Start the shards with a data directory to keep the best."
            )

    def restore(self, epoch: int) -> bool:
        """Whether the shards hold the rows of this epoch, from 0, again; -1: there is none."""
        if epoch < 0 or not self._can_be_kept:
            return False
        try:
            self._model.restore_checkpoint(self._name)
        except (NotFoundError, FailedPreconditionError) as error:
            self._progress.say(
                f"NOTE: the best epoch ({epoch + 1}) was not kept, the result is "
                f"the last one: {error}"
            )
            return False
        return True
