"""Calls to `dslide serve`: predictions of one model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dslide._arguments import checked_floats
from dslide._io import Io, chunked
from dslide._transport import Peer, Settings
from dslide.errors import InvalidArgumentError
from dslide.v1 import predict_pb2, predict_pb2_grpc

_QUERIES_PER_CALL = 256
_MODES = {
    "default": predict_pb2.PREDICT_MODE_UNSPECIFIED,
    "exact": predict_pb2.PREDICT_MODE_EXACT,
    "hashed": predict_pb2.PREDICT_MODE_HASHED,
    "neighbours": predict_pb2.PREDICT_MODE_NEIGHBOURS,
}
_WORDS = {number: word for word, number in _MODES.items()}


@dataclass(frozen=True)
class Prediction:
    """The best labels of one query, the best first: fewer where fewer rows were scored.

    names : of the labels; "" where the model has none
    mode : what was done: "exact", "hashed" or "neighbours"
    scored_rows : how many rows were scored
    unknown : words of the text, or names of features, that the model does not know
    """

    ids: list[int]
    names: list[str]
    scores: list[float]
    mode: str
    scored_rows: int
    unknown: list[str]


def open_peer(io: Io, address: str, settings: Settings) -> Peer:
    return Peer(
        io,
        settings,
        address,
        "prediction server",
        f"start it (dslide serve --listen {address}), or name the address of one that runs",
        predict_pb2_grpc.PredictServiceStub,
    )


async def predict(
    peer: Peer,
    *,
    texts: Sequence[str] | None = None,
    features: Sequence[Mapping[int, float] | Mapping[str, float]] | None = None,
    hidden: npt.ArrayLike | None = None,
    k: int = 10,
    mode: str = "default",
) -> list[Prediction]:
    """The k best labels of each query; queries are of one kind.

    Parameters
    ----------
    texts : cut into words as those of the training data were
    features : of each query the values of its features, by id or by name, as the data has them
    hidden : float32 [n, dim], inputs of the head
    k : at most 1024
    mode : "exact", "hashed" or "neighbours"; "default": what the server is set to

    Queries are sent 256 at a time. Raises InvalidArgumentError for an input or a mode that the
    model does not take (`describe` says which it does), ResourceExhaustedError when too many wait.
    """
    if mode not in _MODES:
        raise InvalidArgumentError(f"mode is {mode!r}, must be one of {', '.join(_MODES)}")
    queries = _queries(texts, features, hidden)
    found: list[Prediction] = []
    for some in chunked(len(queries), _QUERIES_PER_CALL):
        request = predict_pb2.PredictRequest(queries=queries[some], top_k=k, mode=_MODES[mode])
        answer = await peer.call("Predict", request)
        found += [_prediction(result) for result in answer.results]
    return found


async def describe(peer: Peer) -> predict_pb2.GetModelResponse:
    """What is served: its name and sizes, and which inputs and modes it takes."""
    model: predict_pb2.GetModelResponse = await peer.call("GetModel", predict_pb2.GetModelRequest())
    return model


def _queries(
    texts: Sequence[str] | None,
    features: Sequence[Mapping[int, float] | Mapping[str, float]] | None,
    hidden: npt.ArrayLike | None,
) -> list[predict_pb2.PredictQuery]:
    if sum(given is not None for given in (texts, features, hidden)) != 1:
        raise InvalidArgumentError("give one of texts, features and hidden")
    if isinstance(texts, str):
        raise InvalidArgumentError("texts is a string, must be a list of them")
    if texts is not None:
        return [predict_pb2.PredictQuery(text=text) for text in texts]
    if features is not None:
        return [
            predict_pb2.PredictQuery(features=_features(some, i)) for i, some in enumerate(features)
        ]
    assert hidden is not None
    vectors = checked_floats(hidden, (None, None), "hidden")
    return [
        predict_pb2.PredictQuery(hidden=predict_pb2.HiddenVector(values=vector))
        for vector in vectors
    ]


def _features(values: Mapping[Any, float], query: int) -> predict_pb2.SparseFeatures:
    found = predict_pb2.SparseFeatures(values=[float(value) for value in values.values()])
    if all(isinstance(key, str) for key in values):
        found.names.extend(values)
    elif all(isinstance(key, (int, np.integer)) and 0 <= key < 1 << 32 for key in values):
        found.ids.extend(int(key) for key in values)
    else:
        raise InvalidArgumentError(f"features[{query}]: keys must all be ids, or all be names")
    return found


def _prediction(result: predict_pb2.PredictResult) -> Prediction:
    return Prediction(
        [label.id for label in result.labels],
        [label.name for label in result.labels],
        [label.score for label in result.labels],
        _WORDS.get(result.mode, "default"),
        result.scored_rows,
        list(result.unknown),
    )
