"""Lists of ids, one for each sample, and their cut by shard: slot = row % num_slots."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Ragged:
    """Values of samples one after the other: sample i has offsets[i] .. offsets[i + 1] - 1."""

    offsets: npt.NDArray[np.int64]
    ids: npt.NDArray[np.uint32]
    values: npt.NDArray[np.float32] | None = None

    @property
    def samples(self) -> int:
        return len(self.offsets) - 1

    def sample_of(self) -> npt.NDArray[np.int64]:
        """The sample of each id, [len(ids)]."""
        return np.repeat(np.arange(self.samples), np.diff(self.offsets))


def slice_ragged(owners: npt.NDArray[np.uint16], shards: int, ragged: Ragged) -> list[Ragged]:
    """Each shard's part of every sample, by ordinal. `owners` names the shard of each slot."""
    owner = owners[ragged.ids % np.uint32(len(owners))]
    sample_of = ragged.sample_of()
    parts = []
    for shard in range(shards):
        mine = owner == shard
        counts = np.bincount(sample_of[mine], minlength=ragged.samples)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        values = None if ragged.values is None else ragged.values[mine]
        parts.append(Ragged(offsets, ragged.ids[mine], values))
    return parts
