"""What torch_benchmark.py runs where PyTorch and the Python package are.

usage: measure_torch.py equal|learn|wide SETTINGS    SETTINGS: a JSON file

The last line of stdout is one JSON object.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import math
import pathlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import dslide
import numpy
import torch
from dslide.torch import HashedOptions
from meter import Meter
from networks import Body, FusedHead, LinearHead, Points, ShardedHead, precision_at_1

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "peers/workers")]

from batch_order import batches  # noqa: E402

STRETCH = 16  # steps that one side does before the other has its turn
RATE = 0.01
ORDER = 1  # the seed of the batches


@dataclasses.dataclass
class Decay:
    """Factors of a rate that falls linearly to a part of it."""

    steps: int
    to: float
    done: int = 0

    def next(self) -> float:
        self.done += 1
        return 1 - (1 - self.to) * (self.done - 1) / self.steps


def train(
    body: Body, head: Any, points: Points, labels: Any, some: Any, decay: Decay | None = None
) -> float:
    """One step for each batch; the last loss."""
    loss = torch.zeros(())
    for batch in some:
        if decay is not None:
            factor = decay.next()
            body.scale_rates(factor)
            head.scale_rates(factor)
        loss = head.loss(body(points.x[batch]), labels[batch])
        loss.backward()
        head.step()
        body.step()
    return float(loss.detach())


# --- All rows active ------------------------------------------------------------------------------


def equal(settings: dict[str, Any], cluster: dslide.Client) -> dict[str, Any]:
    """Two networks of equal first weights, each trained by itself on the same batches."""
    points = Points.read(settings["train"], settings["points"])
    return {
        "labels": points.y.shape[1],
        "steps": settings["steps"],
        "batch": settings["batch"],
        "optimizers": {
            kind: side_by_side(settings, cluster, points, kind, rate)
            for kind, rate in settings["rates"].items()
        },
    }


def side_by_side(
    settings: dict[str, Any], cluster: dslide.Client, points: Points, kind: str, rate: float
) -> dict[str, Any]:
    torch.manual_seed(1)
    labels, classes = points.first_labels(), points.y.shape[1]
    every = HashedOptions(exact=True)
    theirs = LinearHead(classes, rate, kind)
    ours = ShardedHead(classes, rate, kind, cluster=cluster, options=every)
    ours.module.load_state_dict({"linear.weight": theirs.module.weight.detach()})
    bodies = [Body(points.x.shape[1], rate, kind) for _ in (theirs, ours)]
    bodies[1].load_state_dict(bodies[0].state_dict())
    worst = {"loss": 0.0, "hidden_gradient": 0.0, "relative_hidden_gradient": 0.0}
    steps = itertools.islice(batches(len(points), settings["batch"], ORDER), settings["steps"])
    for batch in steps:
        losses, gradients = [], []
        for body, head in zip(bodies, (theirs, ours)):
            hidden = body(points.x[batch])
            hidden.retain_grad()
            loss = head.loss(hidden, labels[batch])
            loss.backward()
            losses.append(loss.detach())
            gradients.append(hidden.grad)
            head.step()
            body.step()
        difference = (gradients[1] - gradients[0]).abs().max()
        for name, found in (
            ("loss", (losses[1] - losses[0]).abs()),
            ("hidden_gradient", difference),
            ("relative_hidden_gradient", difference / gradients[0].abs().max()),
        ):
            worst[name] = max(worst[name], float(found))
    with torch.no_grad():
        hidden = bodies[0](points.x[: settings["batch"]])
    return {
        "last_loss": float(losses[0]),
        "largest_differences": worst,
        "exported_logits": exported(ours, hidden),
        "imported_top_10": imported(theirs, hidden, cluster),
    }


def exported(head: ShardedHead, hidden: torch.Tensor) -> float:
    """The largest difference of logits once PyTorch has the rows, relative to the largest one."""
    plain = torch.nn.LinearCrossEntropyLoss(hidden.shape[1], head.module.num_classes)
    plain.load_state_dict(head.module.state_dict())
    scores, ids = head.module.predict(hidden, 100)
    logits = plain.linear(hidden).detach().gather(1, ids)
    return float((scores - logits).abs().max() / logits.abs().max())


def imported(head: LinearHead, hidden: torch.Tensor, cluster: dslide.Client) -> float:
    """The part of the best ten labels that is the same once shards have PyTorch's rows."""
    ours = ShardedHead(head.module.out_features, RATE, cluster=cluster)
    ours.module.load_state_dict({"linear.weight": head.module.weight.detach()})
    expected = head.module(hidden).detach().topk(10).indices
    return float((ours.module.predict(hidden, 10)[1] == expected).float().mean())


# --- Accuracy at a speed --------------------------------------------------------------------------


def learn(settings: dict[str, Any], cluster: dslide.Client) -> dict[str, Any]:
    """Both networks on the same batches, in turns, until the last epoch."""
    points = Points.read(settings["train"], settings["points"])
    test = Points.read(settings["test"])
    classes, batch = points.y.shape[1], settings["batch"]
    heads = {
        "dense": LinearHead(classes, settings["rate"], bias=True),
        "hashed": ShardedHead(
            classes,
            settings["rate"],
            optimizer=settings["optimizer"],
            bias=True,
            cluster=cluster,
            options=HashedOptions(**settings["hashed"]),
        ),
    }
    bodies = {}
    for name in heads:
        torch.manual_seed(1)
        bodies[name] = Body(points.x.shape[1], settings["rate"], dropout=settings["dropout"])
    meters = {name: Meter() for name in heads}
    curves: dict[str, list[float]] = {name: [] for name in heads}
    order = batches(len(points), batch, ORDER)
    epoch = max(1, len(points) // batch)
    decays = {name: Decay(settings["epochs"] * epoch, settings["decay"]) for name in heads}
    for number in range(settings["epochs"]):
        for begin in range(0, epoch, STRETCH):
            some = list(itertools.islice(order, min(STRETCH, epoch - begin)))
            for name, head in heads.items():
                with meters[name].stretch(len(some), batch):
                    train(bodies[name], head, points, points.y, some, decays[name])
        for name, head in heads.items():
            curves[name].append(precision_at_1(bodies[name], head, test))
        print(
            f"  epoch {number + 1}: P@1 "
            + ", ".join(f"{name} {curve[-1]:.4f}" for name, curve in curves.items()),
            file=sys.stderr,
            flush=True,
        )
    return {
        "points": len(points),
        "labels": classes,
        "test_points": len(test),
        "batch": batch,
        "options": settings["hashed"],
        "optimizer": settings["optimizer"],
        "sides": {
            name: meters[name].figures() | {"p_at_1": curve[-1], "curve": curve}
            for name, curve in curves.items()
        },
    }


# --- Very wide ------------------------------------------------------------------------------------

DENSE = {
    "linear, float32": (LinearHead, torch.float32),
    "linear, bfloat16": (LinearHead, torch.bfloat16),
    "LinearCrossEntropyLoss, float32": (FusedHead, torch.float32),
    "LinearCrossEntropyLoss, bfloat16": (FusedHead, torch.bfloat16),
}


FAR_SLOWER = 4  # than the fastest path so far: one step, of minutes, tells enough


def dense_steps(
    settings: dict[str, Any], fastest: float, some: Callable[[Any], object], order: Iterator[Any]
) -> Meter:
    """Of the steps behind a path's first, which brings memory in. fastest : seconds a step."""
    first, steps = Meter(), Meter()
    with first.stretch(1, settings["batch"]):
        some(itertools.islice(order, 1))
    if first.seconds > FAR_SLOWER * fastest:
        return first
    with steps.stretch(settings["dense_steps"], settings["batch"]):
        some(itertools.islice(order, settings["dense_steps"]))
    return steps


def wide(settings: dict[str, Any], cluster: dslide.Client) -> dict[str, Any]:
    """The hashed head beside each dense path of PyTorch, which do a few steps."""
    points = Points.read(settings["train"])
    labels, classes, batch = points.first_labels(), points.y.shape[1], settings["batch"]
    order = batches(len(points), batch, ORDER)
    torch.manual_seed(1)
    body = Body(points.x.shape[1], RATE)
    head = ShardedHead(classes, RATE, cluster=cluster, options=HashedOptions(**settings["hashed"]))
    sides: dict[str, Any] = {}
    train(body, head, points, points.y, itertools.islice(order, settings["warm_up"]))
    meter = Meter()
    with meter.stretch(settings["steps"], batch):
        train(body, head, points, points.y, itertools.islice(order, settings["steps"]))
    sides["hashed"] = meter.figures()
    test = Points.read(settings["test"], settings["test_points"])
    precision = precision_at_1(body, head, test)
    head.module.close()
    fastest = math.inf
    for name, (kind, dtype) in DENSE.items():
        dense, body = kind(classes, RATE, dtype=dtype), Body(points.x.shape[1], RATE)
        some = functools.partial(train, body, dense, points, labels)
        steps = dense_steps(settings, fastest, some, order)
        sides[name] = steps.figures()
        fastest = min(fastest, steps.seconds / steps.steps)
        print(
            f"  {name}: {sides[name]['samples_per_second']:.0f} samples/s",
            file=sys.stderr,
            flush=True,
        )
    return {
        "points": len(points),
        "labels": classes,
        "batch": batch,
        "options": settings["hashed"],
        "p_at_1": precision,
        "sides": sides,
    }


PARTS = {"equal": equal, "learn": learn, "wide": wide}


def main() -> None:
    settings = json.loads(pathlib.Path(sys.argv[2]).read_text(encoding="utf-8"))
    torch.manual_seed(1)
    with dslide.local(settings["shards"], binary=settings["binary"], timeout=300) as cluster:
        result = PARTS[sys.argv[1]](settings, cluster)
    print(json.dumps(result | {"torch": torch.__version__}))


if __name__ == "__main__":
    main()
