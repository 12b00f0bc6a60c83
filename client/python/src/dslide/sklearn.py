"""A scikit-learn estimator whose rows live on shards: `dslide.WideClassifier`.

Needs scikit-learn: `pip install 'dslide[sklearn]'`.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise ImportError(
        f"dslide.sklearn needs scikit-learn 1.6 or later ({error}): pip install 'dslide[sklearn]'"
    ) from error

from dslide._clusters import shared_cluster
from dslide._predictor import Predictor
from dslide._transport import Tls
from dslide.client import Client
from dslide.data import Data, from_arrays
from dslide.errors import NotFoundError
from dslide.trainer import Trainer

T = TypeVar("T")
_HASHED_FROM = 4097  # classes from which hashing selects the active rows, as in `dslide train`
_STEPS = 200  # that training without max_epochs takes at least
_EPOCHS = 10  # the same
_VALIDATED_FROM = 2000  # points from which some are held out to find the best epoch


class _Rows:
    """The rows of a fitted estimator: the name of a model, and where it is."""

    def __init__(
        self, name: str, address: str | None, tls: Tls | None, directory: str | None, shards: int
    ) -> None:
        self.name = name
        self._place = {"address": address, "tls": tls, "directory": directory, "shards": shards}
        self.kept = False  # a copy refers to it
        if address is None and directory is None:
            # Nobody can find them any more. A call would do harm in a collection of garbage.
            self._finalizer = weakref.finalize(self, _drop_later, self.name)
            self._finalizer.atexit = False

    def cluster(self) -> Client:
        return shared_cluster(**self._place)  # type: ignore[arg-type]

    def keep(self) -> None:
        self.kept = True
        if hasattr(self, "_finalizer"):
            self._finalizer.detach()

    def __getstate__(self) -> dict[str, Any]:
        self.keep()
        return {"name": self.name, "_place": self._place, "kept": True}

    def ask(self, question: Callable[[Predictor], T]) -> T:
        """Of the rows as they are now."""
        cluster = self.cluster()
        try:
            return question(Predictor(cluster, cluster.model(self.name)))
        except NotFoundError as error:
            raise NotFoundError(
                f"the rows of this estimator are gone: {error}. An estimator is kept by reference: "
                "fit it with model_dir= or cluster= to use it in another process",
                reason=error.reason,
            ) from None


_dropped: list[str] = []
_mutex = threading.Lock()


def _drop_later(name: str) -> None:
    _dropped.append(name)


def _drop_unused() -> None:
    """Drops the models of the temporary cluster whose estimators are gone."""
    with _mutex:
        while _dropped:
            shared_cluster().drop_model(_dropped.pop())


class WideClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier for very many classes: an embedding, a hidden layer, and a head on shards.

    Parameters
    ----------
    dim : int, width of the hidden layer
    cluster : "host:port" of a running coordinator; None: a local cluster of this process
    tls : dslide.Tls, the certificates for `cluster`
    model_dir : folder where the local cluster keeps its rows; None: for as long as this process
    shards : int, of the local cluster
    max_epochs : int; None: 10, and more for few points, until there are 200 steps
    batch_size : int; None: a sixteenth of the points, in [8, 256]
    learning_rate : float, of Adam
    max_active : int, rows that a point touches in training; 0: all; None: 300 above 4,096 classes
    tail_rows : int, random rows that estimate what the inactive ones add, where max_active > 0
    validation_fraction : float, points held out to find the best epoch; None: 0.05 from 2,000 on
    input_transform : "l2" scales points to length 1; "raw" leaves them as they are
    input_dropout, hidden_dropout : float in [0, 1)
    top_k : int, labels that `predict` returns for points of several labels
    progress : bool, shows a bar (with tqdm, where it is installed)
    random_state : int, RandomState or None; equal ones give equal bits

    Attributes
    ----------
    classes_ : the labels; of label lists and matrices 0, 1, 2, ...
    multilabel_ : bool, whether points have any number of labels
    n_features_in_, feature_names_in_ : as everywhere in scikit-learn
    model_name_ : of the model in the cluster

    Pickles and copies are references: they hold the name of the model and where it is, not its
    rows. With `cluster` or `model_dir` they work in other processes; two processes cannot use one
    `model_dir` at a time. Errors of the cluster are `dslide.DslideError`s.
    """

    def __init__(
        self,
        dim: int = 128,
        *,
        cluster: str | None = None,
        tls: Tls | None = None,
        model_dir: str | os.PathLike[str] | None = None,
        shards: int = 1,
        max_epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float = 0.01,
        max_active: int | None = None,
        tail_rows: int = 512,
        validation_fraction: float | None = None,
        input_transform: str = "l2",
        input_dropout: float = 0.0,
        hidden_dropout: float = 0.0,
        top_k: int = 5,
        progress: bool = False,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.dim = dim
        self.cluster = cluster
        self.tls = tls
        self.model_dir = model_dir
        self.shards = shards
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.max_active = max_active
        self.tail_rows = tail_rows
        self.validation_fraction = validation_fraction
        self.input_transform = input_transform
        self.input_dropout = input_dropout
        self.hidden_dropout = hidden_dropout
        self.top_k = top_k
        self.progress = progress
        self.random_state = random_state

    # --- Training -----------------------------------------------------------------------------

    def fit(self, X: Any, y: Any) -> WideClassifier:
        """Trains anew.

        Parameters
        ----------
        X : matrix [points, features], sparse or dense
        y : one class for each point, of any type; or any number of them: a list of lists of
            integers from 0 on, or a matrix [points, classes] whose non-zero columns are the labels
        """
        data = self._first_data(X, y, None)
        self._begin(data)
        self._train(data, self._epochs(data), self._held_out(data))
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> WideClassifier:
        """Trains one epoch more of these points; the first time `classes` names all classes.

        For label lists `classes` are the integers below their number; matrices need none.
        """
        if hasattr(self, "_rows"):
            data = self._more_data(X, y, classes)
        else:
            data = self._first_data(X, y, classes)
            self._begin(data)
        self._train(data, 1, 0.0)
        return self

    def _first_data(self, X: Any, y: Any, classes: Any) -> Data:
        labels = None if y is None else _label_sets(y)
        if labels is None:
            X, y = validate_data(self, X, y, accept_sparse="csr", dtype=_FLOATS)
            check_classification_targets(y)
            self.classes_ = np.unique(y if classes is None else classes)
            labels = _one_label_each(y, self.classes_)
            self.multilabel_ = False
        else:
            X = validate_data(self, X, accept_sparse="csr", dtype=_FLOATS)
            self.multilabel_ = True
        if not self.multilabel_:
            return self._named_data(X, labels)
        data = _data(X, labels, self.n_features_in_, 0 if classes is None else len(classes))
        self.classes_ = np.arange(data.num_labels)
        return data

    def _named_data(self, X: Any, labels: Any) -> Data:
        # A name in the cluster is one line.
        names = [" ".join(str(each).split()) for each in self.classes_]
        return _data(X, labels, self.n_features_in_, len(names), names)

    def _more_data(self, X: Any, y: Any, classes: Any) -> Data:
        labels = _label_sets(y)
        if (labels is not None) != self.multilabel_:
            what = "any number of labels" if self.multilabel_ else "one class"
            raise ValueError(f"y must have {what} for each point, as at first")
        if classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(
                f"classes are {np.unique(classes)}, must be those of the first call: "
                f"{self.classes_}"
            )
        if labels is None:
            X, y = validate_data(self, X, y, accept_sparse="csr", dtype=_FLOATS, reset=False)
            check_classification_targets(y)
            labels = _one_label_each(y, self.classes_)
        else:
            X = validate_data(self, X, accept_sparse="csr", dtype=_FLOATS, reset=False)
        if not self.multilabel_:
            return self._named_data(X, labels)
        return _data(X, labels, self.n_features_in_, len(self.classes_))

    def _begin(self, data: Data) -> None:
        """A new model in the place of the last one of this estimator."""
        old = getattr(self, "_rows", None)
        directory = None if self.model_dir is None else os.path.realpath(self.model_dir)
        self._rows = _Rows(
            f"wide-{os.urandom(6).hex()}",
            self.cluster,
            self.tls,
            None if self.cluster else directory,
            self.shards,
        )
        self.model_name_ = self._rows.name
        self._epochs_done = 0
        self._seed = int(check_random_state(self.random_state).randint(1, np.iinfo(np.int32).max))
        if old is not None and not old.kept:
            old.keep()
            old.cluster().drop_model(old.name)
        del old
        _drop_unused()

    def _train(self, data: Data, epochs: int, held_out: float) -> None:
        rows = len(self.classes_)
        active = self.max_active
        if active is None:
            active = 0 if rows < _HASHED_FROM else 300
        optimizer = {"kind": "adam", "learning_rate": self.learning_rate}
        spec = {
            "name": self._rows.name,
            "seed": self._seed,
            "tables": [
                {
                    "name": "input",
                    "role": "embedding",
                    "dim": self.dim,
                    "bias_row": True,
                    "optimizer": optimizer,
                },
                {
                    "name": "labels",
                    "role": "head",
                    "rows": rows,
                    "dim": self.dim,
                    "optimizer": optimizer,
                    "head": {
                        "max_active": min(active, rows),
                        "tail_rows": min(self.tail_rows, rows) if active else 0,
                    },
                },
            ],
            "training": {
                "transform": self.input_transform,
                "input_dropout": self.input_dropout,
                "hidden_dropout": self.hidden_dropout,
                "batch_size": self._batch(data),
                "in_flight_steps": 1,
                "max_epochs": epochs,
                "validation_fraction": held_out,
                "order_seed": self._seed + self._epochs_done,
            },
        }
        cluster = self._rows.cluster()
        job = f"fit-{os.urandom(6).hex()}"
        with Trainer(cluster, spec, data, job=job, progress=self.progress) as trainer:
            trainer.train()
        cluster.delete_job(job)
        self._epochs_done += epochs

    def _batch(self, data: Data) -> int:
        return self.batch_size or min(max(data.num_points // 16, 8), 256)

    def _epochs(self, data: Data) -> int:
        steps = -(-data.num_points // self._batch(data))
        return self.max_epochs or max(_EPOCHS, -(-_STEPS // steps))

    def _held_out(self, data: Data) -> float:
        if self.validation_fraction is not None:
            return self.validation_fraction
        return 0.05 if data.num_points >= _VALIDATED_FROM else 0.0

    # --- Predictions --------------------------------------------------------------------------

    def predict(self, X: Any, top_k: int | None = None) -> npt.NDArray[Any]:
        """The best labels of each point.

        top_k : how many, [points, top_k], best first; None: for points of one class that class,
            [points]; for points of several labels `self.top_k`
        """
        one = top_k is None and not getattr(self, "multilabel_", False)
        labels, _ = self.predict_top_k(X, 1 if one else top_k)
        return labels[:, 0] if one else labels

    def predict_top_k(
        self, X: Any, k: int | None = None
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.float32]]:
        """The k best labels of each point and their logits, both [points, k], best first.

        k : at most 1024; None: `self.top_k`. Where there are fewer classes, all of them.
        """
        data = self._new_points(X)
        count = min(k or self.top_k, len(self.classes_))
        best = self._rows.ask(lambda predictor: predictor.top_k(data, count))
        return self.classes_[best.ids], best.logits

    def decision_function(self, X: Any) -> npt.NDArray[np.float64]:
        """The logits of all classes, [points, classes]; of two classes their difference, [points].

        Mind the memory: 8 bytes for each point and class.
        """
        logits = self._rows_of(X)
        if len(self.classes_) == 2 and not self.multilabel_:
            difference: npt.NDArray[np.float64] = logits[:, 1] - logits[:, 0]
            return difference
        return logits

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """The softmax over all classes, [points, classes]. Points of several labels share it."""
        logits = self._rows_of(X)
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        probabilities: npt.NDArray[np.float64] = powers / powers.sum(axis=1, keepdims=True)
        return probabilities

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of points whose best label is right: accuracy, and P@1 of several labels.

        Points without labels do not count.
        """
        if not getattr(self, "multilabel_", False):
            return float(super().score(X, y, sample_weight))
        truth = _data(self._features(X), _label_sets(y), self.n_features_in_, 0).labels
        best = self.predict(X, top_k=1)[:, 0]
        right = np.isin(
            np.arange(len(best)) << 32 | best, truth.sample_of() << 32 | truth.ids.astype(np.int64)
        )
        counted = np.diff(truth.offsets) > 0
        return float(np.average(right[counted], weights=_of(sample_weight, counted)))

    def _features(self, X: Any) -> Any:
        check_is_fitted(self, "_rows")
        return validate_data(self, X, accept_sparse="csr", dtype=_FLOATS, reset=False)

    def _new_points(self, X: Any) -> Data:
        matrix = self._features(X)
        return _data(matrix, [[]] * matrix.shape[0], self.n_features_in_, 0)

    def _rows_of(self, X: Any) -> npt.NDArray[np.float64]:
        data = self._new_points(X)
        logits: npt.NDArray[np.float64] = self._rows.ask(lambda predictor: predictor.logits(data))
        return logits

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


_FLOATS = [np.float64, np.float32]


def _of(weights: Any, counted: npt.NDArray[np.bool_]) -> Any:
    return None if weights is None else np.asarray(weights)[counted]


def _label_sets(y: Any) -> Any:
    """`y` as label lists or a CSR matrix; None where each point has one class."""
    if hasattr(y, "tocsr"):
        return y.tocsr()
    if isinstance(y, (list, tuple)) and any(
        isinstance(some, (list, tuple, set, frozenset, np.ndarray)) for some in y
    ):
        return [sorted(some) for some in y]
    array = np.asarray(y)
    if array.ndim == 1 and array.dtype == object and len(array) and _is_list(array[0]):
        return [sorted(some) for some in array]
    if array.ndim == 2 and array.shape[1] > 1:
        from scipy.sparse import csr_matrix

        return csr_matrix(array)
    return None


def _is_list(some: Any) -> bool:
    return isinstance(some, (list, tuple, set, frozenset, np.ndarray))


def _one_label_each(y: npt.NDArray[Any], classes: npt.NDArray[Any]) -> Sequence[Sequence[int]]:
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise ValueError(f"y has {unknown[0]!r}, which is none of the classes {classes}")
    return [[int(place)] for place in np.searchsorted(classes, y)]


def _data(matrix: Any, labels: Any, features: int, classes: int, names: Sequence[str] = ()) -> Data:
    from scipy.sparse import csr_matrix

    rows = csr_matrix(matrix)
    rows.sum_duplicates()
    return from_arrays(
        rows, labels, num_features=features, num_labels=classes, name="X", label_names=names
    )
