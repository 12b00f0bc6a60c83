"""Learning rates of a job, as its trainers compute them: a function of the job's step alone."""

from __future__ import annotations

import math

from dslide.v1 import model_pb2


def rates_of(spec: model_pb2.ModelSpec) -> list[model_pb2.TableRate]:
    """The rates of all tables of floats, which trainers of one job agree on."""
    return [
        model_pb2.TableRate(
            table=table.name,
            learning_rate=table.optimizer.learning_rate,
            schedule=table.optimizer.schedule,
        )
        for table in spec.tables
        if table.HasField("optimizer")
    ]


def learning_rate(optimizer: model_pb2.OptimizerSpec, step: int) -> float:
    """Of step number `step` of a job, from 1."""
    schedule, rate = optimizer.schedule, optimizer.learning_rate
    if step < schedule.warmup_steps:
        return rate * step / schedule.warmup_steps
    if schedule.kind == "constant":
        return rate
    progress = min(1.0, (step - schedule.warmup_steps) / schedule.decay_steps)
    linear = schedule.kind == "linear"
    height = 1.0 - progress if linear else 0.5 * (1.0 + math.cos(math.pi * progress))
    return rate * (schedule.final_fraction + (1.0 - schedule.final_fraction) * height)
