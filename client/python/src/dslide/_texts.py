"""What a model knows of its features and labels beside their rows: names, weights, counts.

It is in the model's assets, where all trainers of a model share it, and whoever predicts finds it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dslide._assets import put_model_assets, read_set
from dslide._connection import Connection
from dslide.data import Data, compute_idf
from dslide.errors import (
    DataLossError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
)

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]
_FEATURES = "features.tsv"
_LABELS = "labels.txt"
_COUNTS = "label_counts.txt"
_DATA = "data.json"
_ATTEMPTS = 5  # to be the next who gives texts


@dataclass
class ModelTexts:
    """Of all features and labels that a model has rows for; rows it grew by may lack theirs.

    Attributes
    ----------
    idf : float32 [features], or empty
    feature_names, label_names : "" for one without a name; empty: none has one
    points : training points that were counted; 0: none were
    label_counts : int64 [labels], training points with each
    kind : of the data, "sparse" or "text"
    others : assets that this client does not read
    """

    idf: F32 = field(default_factory=lambda: np.empty(0, np.float32))
    feature_names: list[str] = field(default_factory=list)
    label_names: list[str] = field(default_factory=list)
    points: int = 0
    label_counts: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    kind: str = "sparse"
    others: dict[str, bytes] = field(default_factory=dict)

    def cover(self, features: int, labels: int) -> None:
        """Gives what is known of some features or labels the length of all."""
        if len(self.idf):
            self.idf = np.pad(self.idf, (0, max(0, features - len(self.idf))))
            self.feature_names += [""] * (features - len(self.feature_names))
        if self.label_names:
            self.label_names += [""] * (labels - len(self.label_names))
        if self.points:
            self.label_counts = np.pad(
                self.label_counts, (0, max(0, labels - len(self.label_counts)))
            )

    def encode(self) -> dict[str, bytes]:
        """The assets. Raises InvalidArgumentError for a name that holds a tab or a line end."""
        for what, names in (("feature", self.feature_names), ("label", self.label_names)):
            for number, name in enumerate(names):
                if set(name) & set("\t\r\n"):
                    raise InvalidArgumentError(
                        f"the name of {what} {number} holds a tab or a line end: {name!r}"
                    )
        files = {_DATA: b'{"format":1,"data":"sparse"}\n'} | self.others
        names = self.feature_names or [""] * len(self.idf)
        weights = self.idf.astype(str)
        files[_FEATURES] = _text(f"{idf}\t{name}" for idf, name in zip(weights, names))
        if any(self.label_names):
            files[_LABELS] = _text(self.label_names)
        if self.points:
            files[_COUNTS] = _text([self.points, *self.label_counts.tolist()])
        return files


def _text(values: Iterable[object]) -> bytes:
    return "".join(f"{value}\n" for value in values).encode()


def _lines(text: bytes) -> list[str]:
    return text.decode().split("\n")[:-1]


def _decode(files: dict[str, bytes], model: str) -> ModelTexts:
    """Takes the assets that this client reads out of `files`."""
    texts = ModelTexts(others=files)
    try:
        kind = json.loads(files.get(_DATA, b'{"format":1,"data":"sparse"}'))
        if kind["format"] != 1:
            raise FailedPreconditionError(
                f"asset {_DATA} of model {model!r} has format {kind['format']}, this version reads "
                "1: use the version that wrote it or a later one"
            )
        texts.kind = str(kind["data"])
        features = [line.partition("\t") for line in _lines(files.pop(_FEATURES, b""))]
        texts.idf = np.array([idf for idf, _, _ in features]).astype(np.float32)
        texts.feature_names = [name for _, _, name in features]
        texts.label_names = _lines(files.pop(_LABELS, b""))
        counts = np.array(_lines(files.pop(_COUNTS, b"")) or ["0"]).astype(np.int64)
        texts.points, texts.label_counts = int(counts[0]), counts[1:]
    except (KeyError, TypeError, ValueError) as error:
        raise DataLossError(f"the assets of model {model!r} cannot be read: {error}") from None
    return texts


async def fetch_texts(
    connection: Connection, model: str, features: int, labels: int
) -> ModelTexts | None:
    """Those of a model, for as many rows; None: it has none."""
    files, checksum = await read_set(connection, model)
    if not checksum:
        return None
    texts = _decode(files, model)
    texts.cover(features, labels)
    return texts


async def label_names(connection: Connection, name: str) -> list[str]:
    """What the labels of a model are called, by number; "" for one without a name.

    Empty when none has one. A model that grew may have more labels than names.
    """
    return _decode((await read_set(connection, name))[0], name).label_names


def count_texts(data: Data, training_points: I64) -> ModelTexts:
    """The names of the data, and what is counted in its training points."""
    _, labels = data.take(training_points)
    return ModelTexts(
        idf=compute_idf(data, training_points),
        feature_names=list(data.feature_names),
        label_names=list(data.label_names),
        points=len(training_points),
        label_counts=np.bincount(labels.ids, minlength=data.num_labels),
    )


async def check_texts(
    connection: Connection, model: str, here: ModelTexts, features: int, labels: int
) -> None:
    """Refuses what share_texts() would refuse, as before the model grows."""
    try:
        there = await fetch_texts(connection, model, features, labels)
    except NotFoundError:  # there is no such model yet
        return
    if there is not None:
        here.cover(features, labels)
        _check(model, there, here)


async def share_texts(
    connection: Connection, model: str, here: ModelTexts, features: int, labels: int
) -> ModelTexts:
    """Makes the texts those of the model, which all trainers of it share; what is there then.

    The first gives them; whoever comes later takes weights and counts as they are there, since rows
    were learnt with them. Rows that the model grew by get the texts of whoever knows them first.

    Raises FailedPreconditionError (ASSETS_DIFFER) naming what is called otherwise there.
    """
    here.cover(features, labels)
    for _ in range(_ATTEMPTS):
        files, checksum = await read_set(connection, model)
        there = _decode(files, model) if checksum else ModelTexts()
        if checksum:
            there.cover(features, labels)
            _check(model, there, here)
        if not _add(there, here) and checksum:
            return there
        try:
            await put_model_assets(connection, model, there.encode(), replaces=checksum or None)
            return there
        except FailedPreconditionError as error:
            if error.reason != "ASSETS_DIFFER":
                raise
    raise FailedPreconditionError(
        f"the assets of model {model!r} are changed by others all the time"
    )


def _check(model: str, there: ModelTexts, here: ModelTexts) -> None:
    difference = ""
    if there.kind != here.kind:
        difference = f"the data is {there.kind} there, {here.kind} here"
    elif len(there.idf) != len(here.idf):
        difference = f"{len(there.idf)} features there, {len(here.idf)} here"
    for what, theirs, ours in (
        ("label", there.label_names, here.label_names),
        ("feature", there.feature_names, here.feature_names),
    ):
        for number, (their, our) in enumerate(zip(theirs, ours)):
            # A row without a name is one that the model has grown by.
            if their and our and their != our:
                difference = difference or f"{what} {number} is {their!r} there, {our!r} here"
    if difference:
        raise FailedPreconditionError(
            f"model {model!r} of the cluster learns from other data: {difference}; train with the "
            "data that it was made of, give another name, or drop the model first",
            reason="ASSETS_DIFFER",
        )


def _add(there: ModelTexts, here: ModelTexts) -> bool:
    """Gives rows without a text there those of here; whether there were any."""
    found = False
    for attribute in ("idf", "feature_names", "label_names", "label_counts"):
        theirs, ours = getattr(there, attribute), getattr(here, attribute)
        if not len(theirs) and len(ours):
            setattr(there, attribute, ours)
            found = True
        for row in range(min(len(theirs), len(ours))):
            if not theirs[row] and ours[row]:
                theirs[row] = ours[row]
                found = True
    there.points = there.points or here.points
    return found
