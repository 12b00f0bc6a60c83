"""One worker of PyTorch DistributedDataParallel over gloo.

usage: ddp_worker.py SETTINGS RANK    SETTINGS: a JSON file, the fields of data_parallel.Settings

The network of dslide and of our dense baseline: a bag of embeddings with sparse gradients, ReLU, a
softmax over all labels, whose targets a point's labels share; Adam, lazy for the embeddings. A step's batch is dealt to the workers. Worker 0 ends with
one JSON object. Evaluations do not count, neither as time nor as steps.
"""

import itertools
import json
import pathlib
import re
import sys
import time

import numpy
import scipy.sparse
import torch
import torch.distributed

_PEERS = pathlib.Path(__file__).resolve().parents[1] / "peers"
sys.path[:0] = [str(_PEERS), str(_PEERS / "workers")]

import prepare  # noqa: E402
import run_dense  # noqa: E402
import sparse_text  # noqa: E402
from batch_order import batches  # noqa: E402


def interface_bytes() -> int:
    """Sent and received at eth0 of this network namespace, as the kernel counts them."""
    text = pathlib.Path("/proc/self/net/dev").read_text(encoding="ascii")
    found = re.search(r"^ *eth0: *(.*)$", text, re.MULTILINE)
    fields = found.group(1).split() if found else ["0"] * 9
    return int(fields[0]) + int(fields[8])


def read(path: str) -> tuple[scipy.sparse.csr_matrix, scipy.sparse.csr_matrix]:
    """Points of a file that have a label: features of unit length, labels."""
    points = sparse_text.read(pathlib.Path(path))
    x = prepare.unit_rows(prepare.features_of(points))
    y = prepare.matrix(points.label_ids, None, points.labels)
    labelled = numpy.flatnonzero(numpy.diff(y.indptr))
    return x[labelled], y[labelled]


def network_of(settings: dict, features: int, labels: int) -> run_dense.Network:
    network = run_dense.Network(features, labels, settings["hidden"], settings["hidden_dropout"])
    torch.nn.init.normal_(network.head.weight, std=settings["head_scale"])
    torch.nn.init.zeros_(network.head.bias)
    return network


def agreed(mine: bool) -> bool:
    """What worker 0 says."""
    flag = torch.tensor([float(mine)])
    torch.distributed.broadcast(flag, 0)
    return bool(flag.item())


def train(settings: dict, rank: int) -> dict[str, object]:
    torch.manual_seed(settings["seed"])  # the same first weights, as DDP makes sure, too
    x, y = read(settings["train"])
    test = read(settings["test"]) if rank == 0 and settings["evaluate_every"] else None
    network = network_of(settings, x.shape[1], y.shape[1])
    parallel = torch.nn.parallel.DistributedDataParallel(network, gradient_as_bucket_view=True)
    optimizers = run_dense.Optimizers.of(network, settings["learning_rate"])
    torch.manual_seed(settings["seed"] + 1 + rank)  # of dropout
    curve: list[list[float]] = []
    seconds: list[float] = []
    losses: list[float] = []
    torch.distributed.barrier()
    before = interface_bytes()
    order = batches(x.shape[0], settings["batch"], settings["seed"])
    for step in itertools.count(1):
        begin = time.perf_counter()
        mine = next(order)[rank :: settings["workers"]]
        loss = run_dense.loss_of(parallel(x[mine]), y[mine])
        optimizers.step(loss)
        seconds.append(time.perf_counter() - begin)
        losses.append(loss.item())
        last = step == settings["steps"]
        if settings["evaluate_every"] and (last or step % settings["evaluate_every"] == 0):
            if test is not None:
                curve.append([sum(seconds), run_dense.accuracy(network, *test)])
            last = agreed(last or sum(seconds) > settings["limit_seconds"])
        if last:
            break
    return {
        "step_seconds": seconds,
        "samples": len(seconds) * settings["batch"],
        "interface_bytes": interface_bytes() - before,
        "curve": curve,
        "first_loss": losses[0],
        "last_loss": losses[-1],
        "torch": torch.__version__,
    }


def main() -> None:
    settings = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    rank = int(sys.argv[2])
    torch.distributed.init_process_group(
        "gloo",
        init_method=f"tcp://{settings['address']}",
        rank=rank,
        world_size=settings["workers"],
    )
    result = train(settings, rank)
    torch.distributed.destroy_process_group()
    if rank == 0:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
