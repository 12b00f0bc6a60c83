"""Which shard owns which row: slot = row % num_slots, and every slot has an owner."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@functools.lru_cache(maxsize=64)
def _deal(num_slots: int, weights: tuple[float, ...]) -> npt.NDArray[np.uint16]:
    scaled = np.array(weights) / max(weights)  # equal weights are exactly 1: their ties are exact
    total = 0.0
    for weight in scaled.tolist():
        total += weight
    owners = np.empty(num_slots, dtype=np.uint16)
    dealt = np.zeros(len(weights))
    for slot in range(num_slots):
        # The shard that is furthest behind its share; of equal ones the first.
        owner = int(np.argmax(scaled * float(slot + 1) - dealt * total))
        owners[slot] = owner
        dealt[owner] += 1.0
    owners.flags.writeable = False
    return owners


def deal(num_slots: int, weights: Sequence[float]) -> npt.NDArray[np.uint16]:
    """The owner of every slot, uint16 [num_slots], dealt from the shards' capacity weights.

    As the coordinator deals them. The array is shared and read-only.
    """
    return _deal(int(num_slots), tuple(float(weight) for weight in weights))


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
    """Each shard's part of every sample, by ordinal."""
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
