"""A trainer: takes leases of a job, trains their points, evaluates, keeps the best epoch.

It works beside C++ trainers in one job: the same order of points, the same dropout, the same
exchanges with every shard.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dslide._batches import BatchPreparer
from dslide._best_epoch import BestEpoch
from dslide._chunks import Chunks
from dslide._evaluation import Evaluation, Precision
from dslide._io import run_blocking
from dslide._leases import Leases
from dslide._models import adopt_growth
from dslide._network import Network
from dslide._pipeline import Step, StepPipeline
from dslide._progress import Progress
from dslide._rates import rates_of
from dslide._stream import ShardStream
from dslide._texts import ModelTexts, check_texts, count_texts, share_texts
from dslide.client import Client
from dslide.data import Data, from_arrays
from dslide.errors import (
    DeadlineExceededError,
    DslideError,
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
    UnavailableError,
)
from dslide.order import EpochOrder, TrainingSplit
from dslide.sparse_text import read_sparse
from dslide.spec import default_spec, fit_spec, load_spec
from dslide.v1 import coordinator_pb2

F32 = npt.NDArray[np.float32]
_CHUNK_BATCHES = 16
_AWAY = (UnavailableError, DeadlineExceededError, ResourceExhaustedError)


@dataclass
class Report:
    """What one trainer did.

    model, job : their names in the cluster
    seconds : of training; evaluations are not counted
    best_epoch : from 0; -1 when nothing was evaluated
    best_restored : the shards hold the best epoch's rows now
    cancelled : somebody has ended the job before its last epoch
    """

    model: str = ""
    job: str = ""
    steps: int = 0
    samples: int = 0
    seconds: float = 0.0
    last_loss: float = 0.0
    active_pairs: int = 0
    best_epoch: int = -1
    best_metric: float = 0.0
    best_restored: bool = False
    cancelled: bool = False
    new_beginnings: int = 0

    @property
    def samples_per_second(self) -> float:
        return self.samples / self.seconds if self.seconds > 0 else 0.0


class Trainer:
    """Trains a model on a cluster, alone or beside other trainers of the job.

    Parameters
    ----------
    cluster : a connected client; must outlive the trainer
    spec : a ModelSpec, its dictionary, the path of its JSON file, or None: derived from the data
    data : the path of a sparse text file, a `dslide.Data`, or (CSR matrix, label lists)
    job : trainers of one job share its work; "" is "train-" and the model's name
    max_steps : of this trainer; 0: until the job is finished
    progress : shows a bar on stderr (with tqdm, where it is installed)
    patience : seconds for which the coordinator may be away
    grow : gives the model of the cluster rows for labels and features that are new in the data

    Not thread-safe. Close it, or use it in a `with`.

    Raises
    ------
    FailedPreconditionError : another model of this name is there
    InvalidArgumentError : the spec or the data is wrong, or does not fit the other
    """

    def __init__(
        self,
        cluster: Client,
        spec: Any,
        data: Any,
        *,
        job: str = "",
        max_steps: int = 0,
        progress: bool = True,
        patience: float = 120.0,
        grow: bool = False,
    ) -> None:
        self._cluster = cluster
        self.data = _as_data(data)
        wanted = default_spec(self.data.num_labels) if spec is None else load_spec(spec)
        self.spec = fit_spec(wanted, self.data.num_features, self.data.num_labels)
        self._max_steps = max_steps
        self._progress = Progress(progress)
        self._patience = patience
        training = self.spec.training
        self._seed = training.order_seed or self.spec.seed
        if training.propensity_strength > 0:
            raise InvalidArgumentError(
                f"training.propensity_strength is {training.propensity_strength:g}, which this "
                "trainer does not know: set it to 0, or train with `dslide train`"
            )
        self._split = TrainingSplit(
            self.data.num_points,
            self.spec.seed,
            training.validation_fraction,
            training.validation_max_samples,
        )
        texts = self._open_model(grow)
        self.idf: F32 | None = texts.idf if training.transform == "tf_idf" else None
        connection = cluster.connection
        self._batches = BatchPreparer(
            self._network,
            len(connection.shards),
            [
                connection.owners(table.num_slots)
                for table in (self._network.embedding, self._network.head)
            ],
            training.transform,
            self.idf,
        )
        self._evaluation = Evaluation(self._network, self._model, self._batches)
        self._job = self._job_spec(job)
        self._settings = connection.settings
        self._chunks = Chunks()
        self._best = BestEpoch(self._model, self._job.job, self._progress)
        self._report = Report(model=self.spec.name, job=self._job.job)
        self._evaluation_seconds = 0.0
        self._epoch = (-1, 0, 0.0)  # of the last one seen: its number, samples, loss
        self._leases: Leases | None = None
        self._streams: list[ShardStream] = []
        self._open()

    def _open_model(self, grow: bool) -> ModelTexts:
        """Makes or grows the model of the cluster; what its trainers share."""
        connection, name = self._cluster.connection, self.spec.name
        texts = count_texts(
            self.data, self._split.training_points(np.arange(self._split.num_training))
        )
        rows = self.data.num_features, self.data.num_labels
        if grow:
            run_blocking(check_texts(connection, name, texts, *rows))
        self.spec = run_blocking(adopt_growth(connection, self.spec, grow=grow))
        self._network = Network(self.spec)
        self._model = self._cluster.create_model(self.spec)
        rows = self._network.num_features, self._network.num_labels
        return run_blocking(share_texts(connection, name, texts, *rows))

    def _job_spec(self, name: str) -> coordinator_pb2.JobSpec:
        training = self.spec.training
        return coordinator_pb2.JobSpec(
            job=name or f"train-{self.spec.name}",
            model=self.spec.name,
            samples_per_epoch=self._split.num_training,
            chunk_samples=training.chunk_samples or _CHUNK_BATCHES * training.batch_size,
            max_epochs=training.max_epochs,
            patience_epochs=training.patience_epochs,
            evaluate=self._split.num_validation > 0,
            seed=self._seed,
            data_fingerprint=self.data.fingerprint,
            training=training,
            rates=rates_of(self.spec),
        )

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leaves the job and closes this trainer at the shards."""
        leases, self._leases = self._leases, None
        if leases is not None:
            leases.close()
        streams, self._streams = self._streams, []
        for stream in streams:
            stream.close()

    def train(self) -> Report:
        """Trains until the job is finished or the step limit is reached.

        What was trained stays in the shards, also when an error ends it.
        """
        start = time.monotonic()
        self._join()
        begun_at = -1
        with self._progress.bar(self._split.num_training * self.spec.training.max_epochs):
            while True:
                try:
                    self._run()
                    break
                except DslideError as error:
                    if not self._may_begin_anew(error, begun_at):
                        raise
                    begun_at = self._report.steps
                    self._begin_anew(error)
        self._report.seconds += time.monotonic() - start - self._evaluation_seconds
        self._evaluation_seconds = 0.0
        self._report.last_loss = self._mean_loss()
        return self._report

    def evaluate(self, data: Any) -> Precision:
        """Exact precision at 1, 3 and 5 on any data of the same shape; points without labels do
        not count."""
        points = _as_data(data)
        everything = np.arange(points.num_points)
        return self._evaluation.measure(self._pipeline, points, everything)

    def predict(
        self, data: Any, k: int = 5, *, hashed: bool = False
    ) -> tuple[F32, npt.NDArray[np.uint32]]:
        """Logits float32 [points, k] and labels uint32 [points, k], best first."""
        points = _as_data(data)
        best = self._evaluation.predict(
            self._pipeline, points, np.arange(points.num_points), k, hashed
        )
        return best.logits, best.ids

    # --- Life ---------------------------------------------------------------------------------

    def _open(self) -> None:
        connection = self._cluster.connection
        self._client_id = os.urandom(16)
        self._restore_count = self._cluster.cluster_map().restore_count
        settings = dataclasses.replace(self._settings, job=self._job.job)
        try:
            for shard in connection.shards:
                self._streams.append(
                    ShardStream(
                        shard,
                        settings,
                        self._client_id,
                        self.spec.name,
                        connection.map.topology_version,
                    )
                )
        except BaseException:
            self.close()  # a shard keeps what it has for each client until that is closed
            raise
        self._pipeline = StepPipeline(self._network, self._streams, self._seed, self._on_finished)

    def _join(self) -> None:
        if self._leases is None:
            self._leases = Leases(self._cluster, self._job, self._client_id)

    def _may_begin_anew(self, error: DslideError, begun_at: int) -> bool:
        if self._report.steps == begun_at:
            return False  # it would never end
        if error.reason in ("CLOSED_CLIENT", "UNKNOWN_CLIENT"):
            return True
        return error.reason in ("LOST_UPDATES", "UNKNOWN_MODEL") and self._await_restore()

    def _await_restore(self) -> bool:
        """Whether the cluster is restored from a checkpoint; waits for it."""
        deadline = time.monotonic() + self._patience
        try:
            if not self._cluster.list_cluster_checkpoints():
                return False
        except DslideError:
            return False
        while time.monotonic() < deadline:
            with contextlib.suppress(DslideError):
                if self._cluster.cluster_map().restore_count != self._restore_count:
                    return True
            time.sleep(0.1)
        return False

    def _begin_anew(self, why: DslideError) -> None:
        self._progress.say(
            f"NOTE: beginning anew as another client, with the work that is open ({why})"
        )
        self._chunks.clear()
        self._report.new_beginnings += 1
        deadline = time.monotonic() + self._patience
        while True:
            self.close()
            try:
                self._open()
                self._join()
                return
            except _AWAY:  # the rollback may not have ended yet
                if time.monotonic() >= deadline:
                    raise
                time.sleep(0.5)

    # --- Work ---------------------------------------------------------------------------------

    def _run(self) -> None:
        pause, away_since, drained = 0.1, 0.0, False
        assert self._leases is not None
        while True:
            try:
                work = self._leases.ask()
            except NotFoundError:
                self._pipeline.drain()
                self._chunks.clear()
                self._progress.say(
                    "NOTE: the coordinator was restarted and has forgotten the job: its "
                    "epoch begins again"
                )
                self._leases.join_again()
                continue
            except _AWAY as error:
                if not drained:
                    self._pipeline.drain()
                    drained = True
                if away_since == 0.0:
                    away_since = time.monotonic()
                    self._progress.say(f"the coordinator is away, trying again: {error}")
                if time.monotonic() - away_since >= self._patience:
                    raise
                time.sleep(pause)
                pause = min(pause * 2, 2.0)
                continue
            if away_since:
                self._progress.say("the coordinator is back")
            pause, away_since, drained = 0.1, 0.0, False
            kind = work.WhichOneof("work")
            if kind == "chunk":
                if not self._train_chunk(work.chunk):
                    return
                continue
            self._pipeline.drain()
            if kind == "evaluation":
                self._validate(work.evaluation)
            elif kind == "stage":
                self._complete(work.stage)
            elif kind == "finished":
                self._report.best_epoch = work.finished.best_epoch
                self._report.best_metric = work.finished.best_metric
                self._report.best_restored = work.finished.best_restored
                self._report.cancelled = work.finished.cancelled
                return
            elif self._leases.has_reports():
                continue  # what the drain has finished is reported at once
            else:
                time.sleep(work.wait.retry_after.ToTimedelta().total_seconds())

    def _train_chunk(self, lease: coordinator_pb2.ChunkLease) -> bool:
        """False at the step limit."""
        self._chunks.begin(lease.lease_id)
        order = EpochOrder(self._split.num_training, self._seed, lease.epoch)
        positions = order.points_at(lease.first, lease.count)
        points = self._split.training_points(positions)
        size = self.spec.training.batch_size
        for first in range(0, len(points), size):
            if self._max_steps and self._steps_begun() >= self._max_steps:
                self._pipeline.drain()
                return False
            before = lease.epoch * self._split.num_training + lease.first + first
            batch = self._batches.batch(
                self.data, lease, before // size + 1, points[first : first + size]
            )
            if len(batch.points):
                self._chunks.submit(lease.lease_id)
                self._pipeline.submit(batch)
        self._report_chunk(self._chunks.complete(lease.lease_id))
        return True

    def _steps_begun(self) -> int:
        return self._report.steps + self._chunks.steps_under_way()

    def _on_finished(self, step: Step) -> None:
        samples = len(step.batch.points)
        self._report.steps += 1
        self._report.samples += samples
        self._report.active_pairs += step.active_pairs
        epoch, seen, loss = self._epoch
        if epoch != step.batch.epoch:
            seen, loss = 0, 0.0
        self._epoch = (step.batch.epoch, seen + samples, loss + step.loss_sum)
        self._progress.advance(
            samples,
            f"epoch {self._epoch[0] + 1}/{self.spec.training.max_epochs}",
            self._mean_loss(),
        )
        self._report_chunk(self._chunks.finish(step.batch.lease, samples, step.loss_sum))

    def _mean_loss(self) -> float:
        """Of the samples of the last epoch seen, so far."""
        _, samples, loss = self._epoch
        return loss / samples if samples else 0.0

    def _report_chunk(self, report: coordinator_pb2.WorkReport | None) -> None:
        """None: not all of it is done."""
        if report is not None:
            assert self._leases is not None
            self._leases.finish(report)

    # --- Evaluation ---------------------------------------------------------------------------

    def _validate(self, work: coordinator_pb2.EvaluationLease) -> None:
        start = time.monotonic()
        held_out = self._split.validation_points()
        at_1 = self._evaluation.measure(self._pipeline, self.data, held_out).at_1
        better = at_1 > work.metric_to_beat
        self._progress.say(
            f"epoch {work.epoch + 1}: P@1 {at_1:.4f} on the held-out points"
            f"{' (the best so far)' if better else ''}"
        )
        if better:
            self._best.keep()
        assert self._leases is not None
        self._leases.finish(coordinator_pb2.WorkReport(lease_id=work.lease_id, metric=at_1))
        self._evaluation_seconds += time.monotonic() - start

    def _complete(self, work: coordinator_pb2.StageLease) -> None:
        """Restores the best epoch; the other trainers wait for that."""
        start = time.monotonic()
        restored = self._best.restore(work.best_epoch)
        assert self._leases is not None
        self._leases.finish(
            coordinator_pb2.WorkReport(lease_id=work.lease_id, best_restored=restored)
        )
        self._evaluation_seconds += time.monotonic() - start


def _as_data(data: Any) -> Data:
    if isinstance(data, Data):
        return data
    if isinstance(data, (str, os.PathLike)):
        return read_sparse(data)
    if isinstance(data, tuple) and len(data) == 2:
        return from_arrays(*data)
    raise InvalidArgumentError(
        f"data is {type(data).__name__}, must be a path, a dslide.Data, or "
        "(CSR matrix, label lists)"
    )
