"""Training jobs, whose work the coordinator leases to trainers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dslide._connection import Connection
from dslide._status import status
from dslide.errors import NotFoundError
from dslide.v1 import coordinator_pb2


async def register_job(
    connection: Connection, spec: coordinator_pb2.JobSpec, client_id: bytes = b""
) -> bool:
    """Opens a training job, or joins the one of that name; whether it was opened."""
    response = await connection.coordinator.call(
        "RegisterJob",
        coordinator_pb2.RegisterJobRequest(spec=spec, client_id=client_id or connection.client_id),
    )
    return bool(response.created)


async def acquire_work(
    connection: Connection,
    job: str,
    *,
    client_id: bytes = b"",
    want_work: bool = True,
    finished: Sequence[coordinator_pb2.WorkReport] = (),
    held: Iterable[int] = (),
) -> coordinator_pb2.AcquireWorkResponse:
    """Reports finished leases, renews those held, and asks for the next. One attempt."""
    response: coordinator_pb2.AcquireWorkResponse = await connection.coordinator.once(
        "AcquireWork",
        coordinator_pb2.AcquireWorkRequest(
            job=job,
            client_id=client_id or connection.client_id,
            finished=finished,
            held=held,
            want_work=want_work,
        ),
        min(connection.settings.timeout, 10.0),
    )
    return response


async def leave_job(connection: Connection, job: str, client_id: bytes = b"") -> None:
    """Returns this client's leases. One attempt."""
    await connection.coordinator.once(
        "LeaveJob",
        coordinator_pb2.LeaveJobRequest(job=job, client_id=client_id or connection.client_id),
        min(connection.settings.timeout, 5.0),
    )


async def cancel_job(connection: Connection, job: str) -> coordinator_pb2.JobStatus:
    """Ends a job: its trainers end well, and what was trained stays. Its status then."""
    response = await connection.coordinator.call(
        "CancelJob", coordinator_pb2.CancelJobRequest(job=job)
    )
    ended: coordinator_pb2.JobStatus = response.job
    return ended


async def delete_job(connection: Connection, job: str) -> None:
    """Forgets a job that has ended, so that one of its name begins anew.

    Raises FailedPreconditionError (JOB_RUNS) for one that has not.
    """
    await connection.coordinator.call("DeleteJob", coordinator_pb2.DeleteJobRequest(job=job))


async def list_jobs(connection: Connection) -> list[coordinator_pb2.JobStatus]:
    """All jobs that the coordinator knows, by name: those that run and those that have ended."""
    return sorted((await status(connection)).jobs, key=lambda known: str(known.job))


async def job_status(connection: Connection, job: str) -> coordinator_pb2.JobStatus:
    """How far a job is. Raises NotFoundError naming those that there are."""
    jobs = {known.job: known for known in await list_jobs(connection)}
    if job not in jobs:
        there = f"it has: {', '.join(jobs)}" if jobs else "it has none"
        raise NotFoundError(f"the cluster has no job {job!r}; {there}", reason="UNKNOWN_JOB")
    return jobs[job]
