"""A dense network in PyTorch: a bag of embeddings, ReLU, dropout, a softmax over all labels.

Adam at its default rate; several labels share the target equally. A twentieth of the points chooses
the epoch, and the best one is kept: the training ends three epochs after it.
"""

import dataclasses
import pathlib

import numpy
import peer
import scipy.sparse
import torch

HIDDEN = 128  # as dslide's derived spec has it
BATCH = 256
EPOCHS = 30
PATIENCE = 3
DROPOUT = 0.5
HELD_OUT = 20  # one point of so many


class Network(torch.nn.Module):
    def __init__(
        self, features: int, labels: int, hidden: int = HIDDEN, dropout: float = DROPOUT
    ) -> None:
        super().__init__()
        self.bag = torch.nn.EmbeddingBag(features, hidden, mode="sum", sparse=True)
        self.bias = torch.nn.Parameter(torch.zeros(hidden))
        self.dropout = torch.nn.Dropout(dropout)
        self.head = torch.nn.Linear(hidden, labels)
        # Rows of unit length have sums of the order of one then.
        torch.nn.init.normal_(self.bag.weight, std=hidden**-0.5)

    def forward(self, x: scipy.sparse.csr_matrix) -> torch.Tensor:
        """[rows of x, labels] logits."""
        ids, starts, values = (
            torch.from_numpy(array)
            for array in (x.indices.astype(numpy.int64), x.indptr[:-1].astype(numpy.int64), x.data)
        )
        hidden = self.bag(ids, starts, per_sample_weights=values) + self.bias
        return self.head(self.dropout(torch.relu(hidden)))


@dataclasses.dataclass
class Optimizers:
    """Adam, lazy for the embeddings, whose gradient is sparse."""

    dense: torch.optim.Optimizer
    sparse: torch.optim.Optimizer

    @staticmethod
    def of(network: Network, rate: float = 1e-3) -> "Optimizers":
        others = [value for name, value in network.named_parameters() if name != "bag.weight"]
        return Optimizers(
            torch.optim.Adam(others, rate, fused=True),
            torch.optim.SparseAdam([network.bag.weight], rate),
        )

    def step(self, loss: torch.Tensor) -> None:
        for optimizer in (self.dense, self.sparse):
            optimizer.zero_grad()
        loss.backward()
        for optimizer in (self.dense, self.sparse):
            optimizer.step()


def loss_of(logits: torch.Tensor, y: scipy.sparse.csr_matrix) -> torch.Tensor:
    """The mean cross-entropy with each point's labels in equal parts; each row of y has one."""
    counts = numpy.diff(y.indptr)
    rows = torch.from_numpy(numpy.repeat(numpy.arange(y.shape[0]), counts))
    hits = logits[rows, torch.from_numpy(y.indices.astype(numpy.int64))]
    weights = torch.from_numpy(1 / counts.astype(numpy.float32))
    return (torch.logsumexp(logits, dim=1).sum() - (hits * weights[rows]).sum()) / y.shape[0]


def accuracy(network: Network, x: scipy.sparse.csr_matrix, y: scipy.sparse.csr_matrix) -> float:
    """P@1."""
    network.eval()
    hits = 0.0
    with torch.no_grad():
        for begin in range(0, x.shape[0], BATCH):
            part = slice(begin, min(begin + BATCH, x.shape[0]))
            # scipy cannot index with memory that belongs to a tensor.
            first = network(x[part]).argmax(dim=1).numpy().copy()
            hits += y[part][numpy.arange(len(first)), first].sum()
    network.train()
    return float(hits / x.shape[0])


def train(data: peer.Prepared, model: pathlib.Path, seed: int, trees: int) -> None:
    del trees
    torch.manual_seed(seed)
    random = numpy.random.default_rng(seed)
    labelled = random.permutation(numpy.flatnonzero(numpy.diff(data.train_y.indptr)))
    held = max(1, len(labelled) // HELD_OUT)
    held_out, points = labelled[:held], labelled[held:]
    network = Network(data.train_x.shape[1], data.train_y.shape[1])
    optimizers = Optimizers.of(network)
    best, best_epoch = -1.0, 0
    for epoch in range(EPOCHS):
        random.shuffle(points)
        for begin in range(0, len(points), BATCH):
            batch = points[begin : begin + BATCH]
            optimizers.step(loss_of(network(data.train_x[batch]), data.train_y[batch]))
        reached = accuracy(network, data.train_x[held_out], data.train_y[held_out])
        if reached > best:
            best, best_epoch = reached, epoch
            torch.save(network.state_dict(), model / "network.pt")
        elif epoch - best_epoch >= PATIENCE:
            break


def load(data: peer.Prepared, model: pathlib.Path) -> peer.Ranker:
    torch.set_num_threads(1)
    network = Network(data.train_x.shape[1], data.train_y.shape[1])
    network.load_state_dict(torch.load(model / "network.pt"))
    network.eval()
    rows = [data.test_x[point] for point in range(data.test_x.shape[0])]

    def rank(point: int, k: int) -> list[int]:
        with torch.no_grad():
            return torch.topk(network(rows[point])[0], k).indices.tolist()

    return rank


if __name__ == "__main__":
    peer.main(["train_x", "train_y"], train, load)
