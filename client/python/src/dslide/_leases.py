"""A trainer's leases: parts of a job's work that are its own for a while."""

from __future__ import annotations

import contextlib
import threading

from dslide.client import Client
from dslide.errors import DslideError
from dslide.v1 import coordinator_pb2

_RENEW_SECONDS = 1.0


class Leases:
    """A trainer's leases: asks for work, and renews in the background what is held.

    Thread-safe.
    """

    def __init__(self, client: Client, job: coordinator_pb2.JobSpec, client_id: bytes) -> None:
        self._client = client
        self._job = job
        self._client_id = client_id
        self._mutex = threading.Lock()  # of a call and of what it reports
        self._held: list[int] = []
        self._finished: list[coordinator_pb2.WorkReport] = []
        self._stop = threading.Event()
        client.register_job(job, client_id)
        self._thread = threading.Thread(target=self._renew, name="dslide leases", daemon=True)
        self._thread.start()

    def _renew(self) -> None:
        while not self._stop.wait(_RENEW_SECONDS):
            # A renewal that is lost shows at the next call that wants work.
            with contextlib.suppress(DslideError):
                self.ask(want_work=False)

    def ask(self, want_work: bool = True) -> coordinator_pb2.AcquireWorkResponse:
        with self._mutex:
            sent = len(self._finished)
            answer = self._client.acquire_work(
                self._job.job,
                client_id=self._client_id,
                want_work=want_work,
                finished=self._finished,
                held=self._held,
            )
            del self._finished[:sent]
            kind = answer.WhichOneof("work")
            if kind in ("chunk", "evaluation", "stage"):
                self._held.append(getattr(answer, kind).lease_id)
            return answer

    def finish(self, report: coordinator_pb2.WorkReport) -> None:
        """Reported by the next call; leases that are not held any more are ignored."""
        with self._mutex:
            if report.lease_id in self._held:
                self._held.remove(report.lease_id)
                self._finished.append(report)

    def has_reports(self) -> bool:
        """Whether the next call has something to report."""
        with self._mutex:
            return bool(self._finished)

    def join_again(self) -> None:
        """After the coordinator has forgotten the job, and with it the leases."""
        with self._mutex:
            self._held.clear()
            self._finished.clear()
            self._client.register_job(self._job, self._client_id)

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        with contextlib.suppress(DslideError):
            self._client.leave_job(self._job.job, self._client_id)
