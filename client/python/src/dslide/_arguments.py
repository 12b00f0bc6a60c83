"""Arrays that callers give, checked before anything is sent."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dslide.errors import InvalidArgumentError

F32 = npt.NDArray[np.float32]


def checked_ids(ids: npt.ArrayLike, rows: int, what: str) -> npt.NDArray[np.int64]:
    """Row ids of one dimension, each in [0, rows)."""
    array = np.asarray(ids)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise InvalidArgumentError(
            f"{what}: ids are {array.dtype} {list(array.shape)}, must be integers of one dimension"
        )
    array = array.astype(np.int64)
    if array.size and (array.min() < 0 or array.max() >= rows):
        worst = array[(array < 0) | (array >= rows)][0]
        raise InvalidArgumentError(f"{what}: id {worst} is outside [0, {rows})")
    return array


def checked_floats(x: npt.ArrayLike, shape: tuple[int | None, ...], what: str) -> F32:
    """A finite, contiguous float32 array of that shape; None is any size."""
    array = np.asarray(x)
    fits = array.ndim == len(shape) and all(
        want is None or have == want for have, want in zip(array.shape, shape)
    )
    if not fits:
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise InvalidArgumentError(f"{what} has shape {list(array.shape)}, must be [{wanted}]")
    if array.dtype.kind not in "fiu":
        raise InvalidArgumentError(f"{what} is {array.dtype}, must be numbers (float32)")
    with np.errstate(over="ignore"):
        array = np.ascontiguousarray(array, dtype=np.float32)
    # A sum finds NaN and infinity in one pass without memory of its own; it may overflow itself.
    with np.errstate(over="ignore", invalid="ignore"):
        suspicious = not np.isfinite(array.sum())
    if suspicious and not np.isfinite(array).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise InvalidArgumentError(f"{what} has {array[place]} at {list(place)}, must be finite")
    return array
