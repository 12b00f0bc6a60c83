"""napkinXC's probabilistic label tree, defaults: balanced 2-means, logistic nodes, exact search."""

import os
import pathlib

import peer
from napkinxc.models import PLT


def train(data: peer.Prepared, model: pathlib.Path, seed: int, trees: int) -> None:
    y = data.train_y
    labels = [y.indices[begin:end].tolist() for begin, end in zip(y.indptr, y.indptr[1:])]
    # One tree is no ensemble, for which it writes another layout.
    PLT(str(model), ensemble=trees if trees > 1 else 0, seed=seed, threads=os.cpu_count()).fit(
        data.train_x, labels
    )


def load(data: peer.Prepared, model: pathlib.Path) -> peer.Ranker:
    tree = PLT(str(model), threads=1)
    tree.load()
    rows = [data.test_x[point] for point in range(data.test_x.shape[0])]
    return lambda point, k: tree.predict(rows[point], top_k=k)[0]


if __name__ == "__main__":
    peer.main(["train_x", "train_y"], train, load)
