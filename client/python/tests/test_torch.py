"""The PyTorch modules do what PyTorch's own do, with their rows on shards."""

from __future__ import annotations

import pathlib
import pickle
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip(
    "torch", reason="PyTorch (6 GB) is not installed: ./run clients --with-torch"
)

import dslide  # noqa: E402
from dslide.torch import HashedOptions, LinearCrossEntropyLoss, WideEmbeddingBag  # noqa: E402

# Rows, hidden vectors and logits are float32 on their way: 24 bits, over sums of some dozen terms.
CLOSE = 1e-5
IN, CLASSES, BATCH = 8, 50, 12
SGD = {"kind": "sgd", "learning_rate": 0.5}


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(7)


def _pair(cluster: dslide.Client, **settings: Any) -> tuple[Any, Any]:
    """PyTorch's loss and ours, of equal rows."""
    theirs = torch.nn.LinearCrossEntropyLoss(IN, CLASSES, **settings)
    ours = LinearCrossEntropyLoss(IN, CLASSES, cluster=cluster, optimizer=SGD, **settings)
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def _class_ids() -> Any:
    return torch.randint(CLASSES, (BATCH,))


def _some_ignored() -> Any:
    return torch.where(torch.arange(BATCH) % 3 == 0, -100, _class_ids())


def _probabilities() -> Any:
    return torch.randn(BATCH, CLASSES).softmax(1)


WEIGHT = torch.linspace(0.5, 2, CLASSES)
CASES: dict[str, tuple[dict[str, Any], Any]] = {
    "class ids": ({}, _class_ids),
    "bias": ({"bias": True}, _class_ids),
    "sum": ({"reduction": "sum"}, _class_ids),
    "none": ({"reduction": "none"}, _class_ids),
    "ignored": ({"bias": True}, _some_ignored),
    "ignored by name": ({"ignore_index": 3}, lambda: torch.arange(BATCH)),
    "weights": ({"weight": WEIGHT}, _some_ignored),
    "smoothed": ({"label_smoothing": 0.2, "weight": WEIGHT}, _some_ignored),
    "probabilities": ({"weight": WEIGHT}, _probabilities),
    "smoothed probabilities": ({"label_smoothing": 0.1, "reduction": "sum"}, _probabilities),
}


@pytest.mark.parametrize("name", CASES)
def test_is_the_loss_of_pytorch(name: str, cluster: dslide.LocalCluster) -> None:
    """Losses, gradients of the input and rows, over steps of SGD."""
    settings, make_target = CASES[name]
    theirs, ours = _pair(cluster, **settings)
    optimizer = torch.optim.SGD(theirs.parameters(), SGD["learning_rate"])
    for _ in range(5):
        x, target = torch.randn(BATCH, IN), make_target()
        losses, gradients = [], []
        for loss in (theirs, ours):
            mine = x.clone().requires_grad_()
            found = loss(mine, target)
            losses.append(found.detach())
            optimizer.zero_grad()
            # A mean of unlike parts where there is no reduction.
            (found * torch.linspace(0.1, 1, found.numel()).reshape(found.shape)).sum().backward()
            gradients.append(mine.grad)
            if loss is theirs:
                optimizer.step()
        torch.testing.assert_close(losses[1], losses[0], atol=CLOSE, rtol=CLOSE)
        torch.testing.assert_close(gradients[1], gradients[0], atol=CLOSE, rtol=CLOSE)
    rows = ours.state_dict()
    assert rows.keys() == theirs.state_dict().keys()
    for key, value in theirs.state_dict().items():
        torch.testing.assert_close(rows[key], value, atol=CLOSE, rtol=CLOSE)
    ours.close()


def test_adam_is_that_of_pytorch_where_every_row_learns(cluster: dslide.LocalCluster) -> None:
    theirs = torch.nn.LinearCrossEntropyLoss(IN, CLASSES, bias=True)
    ours = LinearCrossEntropyLoss(IN, CLASSES, bias=True, cluster=cluster)
    ours.load_state_dict(theirs.state_dict())
    ours.learning_rate = 0.01
    optimizer = torch.optim.Adam(theirs.parameters(), 0.01)
    for _ in range(20):
        x, target = torch.randn(BATCH, IN), _class_ids()
        optimizer.zero_grad()
        theirs(x, target).backward()
        optimizer.step()
        ours(x, target).backward()  # the input needs no gradient, the rows do
    torch.testing.assert_close(
        ours.state_dict()["linear.weight"], theirs.linear.weight.data, atol=1e-4, rtol=1e-4
    )
    ours.close()


def test_gradients_pass_gradcheck(cluster: dslide.LocalCluster) -> None:
    """Rows are float32: a logit of size 1 is exact to 2^-23, so steps of 2^-7 see its slope to some
    2^-16, and the third derivative adds 2^-14 / 6; 1e-3 is beyond both."""
    _, ours = _pair(cluster, bias=True)
    ours.requires_grad_(False)  # the check compares one function, which must not learn
    before = ours.state_dict()["linear.weight"]
    x = torch.randn(3, IN, dtype=torch.float64, requires_grad=True)
    target = torch.tensor([1, 2, 49])
    assert torch.autograd.gradcheck(
        lambda hidden: ours(hidden, target), (x,), eps=2**-7, atol=1e-3, rtol=1e-3, nondet_tol=0.0
    )
    assert torch.equal(ours.state_dict()["linear.weight"], before)
    ours.close()


def test_multi_hot_targets_share_a_sample(cluster: dslide.LocalCluster) -> None:
    from scipy.sparse import csr_matrix

    _, ours = _pair(cluster)
    ours.requires_grad_(False)
    x = torch.randn(3, IN)
    hot = torch.zeros(3, CLASSES, dtype=torch.int64)
    hot[0, [4, 9]] = hot[1, 30] = 1
    expected = ours(x, hot / hot.sum(1, keepdim=True).clamp(min=1))
    forms = (hot, hot.bool(), hot.to_sparse_csr(), csr_matrix(hot.numpy()))
    for form in forms:
        torch.testing.assert_close(ours(x, form), expected)
    torch.testing.assert_close(
        ours(x, csr_matrix(np.full((3, CLASSES), 1 / CLASSES, np.float32))),
        ours(x, torch.full((3, CLASSES), 1 / CLASSES)),
    )
    ours.close()


def test_predictions_are_those_of_the_exported_head(cluster: dslide.LocalCluster) -> None:
    ours = LinearCrossEntropyLoss(IN, CLASSES, bias=True, cluster=cluster)
    for _ in range(3):
        ours(torch.randn(BATCH, IN), _class_ids()).backward()
    theirs = torch.nn.LinearCrossEntropyLoss(IN, CLASSES, bias=True)
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(4, IN)
    logits = theirs.linear(x)
    best = logits.topk(5)
    scores, ids = ours.predict(x, 5)
    assert torch.equal(ids, best.indices)
    torch.testing.assert_close(scores, best.values, atol=1e-6, rtol=1e-6)
    expected = logits.log_softmax(1)
    torch.testing.assert_close(ours.log_prob(x), expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(ours.log_prob(x, ids), expected.gather(1, ids), atol=1e-5, rtol=1e-5)
    assert ours.predict(x[0], 2)[1].shape == (2,)
    _, lse = ours(x, torch.tensor([0, 1, 2, -100]), return_lse=True)
    torch.testing.assert_close(lse, logits.logsumexp(1), atol=1e-5, rtol=1e-5)
    ours.close()


def test_graphs_may_be_used_twice_late_or_never(cluster: dslide.LocalCluster) -> None:
    theirs, ours = _pair(cluster)
    x, target = torch.randn(BATCH, IN), _class_ids()
    ours(x, target)  # nobody asks for this one's gradient
    with torch.no_grad():
        ours(x, target)
    first = ours(x, target)
    second = ours(x, target)
    second.backward()
    first.backward(retain_graph=True)
    first.backward()
    optimizer = torch.optim.SGD(theirs.parameters(), SGD["learning_rate"])
    for _ in range(3):
        optimizer.zero_grad()
        theirs(x, target).backward()
        optimizer.step()
    weight = ours.state_dict()["linear.weight"]
    # The probabilities of the first backward of `first` are those of its forward.
    torch.testing.assert_close(weight, theirs.linear.weight.data, atol=0.05, rtol=0)
    with pytest.raises(ValueError, match="must not be negative"):
        (-ours(x, target)).backward()
    assert torch.equal(ours.state_dict()["linear.weight"], weight)
    ours.close()


def test_a_hashed_head_learns_with_the_layers_before_it(cluster: dslide.LocalCluster) -> None:
    classes, points = 6000, 128
    bag = WideEmbeddingBag(
        2000, 32, mode="sum", cluster=cluster, optimizer={"kind": "adam", "learning_rate": 0.02}
    )
    layers = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(32, 32), torch.nn.ReLU())
    head = LinearCrossEntropyLoss(
        32,
        classes,
        bias=True,
        options=HashedOptions(max_active=200, tail_rows=200),
        cluster=cluster,
        optimizer={"kind": "adam", "learning_rate": 0.02},
    )
    optimizer = torch.optim.Adam(layers.parameters(), 0.01)
    target = torch.randint(classes, (points,))
    words = torch.randint(2000, (points, 6))
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = head(layers(bag(words)), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2, losses
    with torch.no_grad():
        hidden = layers(bag(words))
    assert (head.predict(hidden, 1)[1][:, 0] == target).float().mean() > 0.8
    # Rows that are loaded are found by hashing, too.
    other = LinearCrossEntropyLoss(
        32, classes, bias=True, options=HashedOptions(max_active=200), cluster=cluster
    )
    other.load_state_dict(head.state_dict())
    found = other.predict(hidden, 1, hashed=True)[1]
    assert (found == head.predict(hidden, 1)[1]).float().mean() > 0.8
    for module in (bag, head, other):
        module.close()


def test_hash_settings_are_those_of_a_model_spec(cluster: dslide.LocalCluster) -> None:
    options = HashedOptions(max_active=200, tables=8, hash={"proposed_per_sample": 10})
    loss = LinearCrossEntropyLoss(IN, 6000, options=options, cluster=cluster)
    found = cluster.model(loss.model_name).spec.tables[0].head.hash
    assert (found.num_tables, found.proposed_per_sample) == (8, 10)
    loss.close()
    with pytest.raises(dslide.InvalidArgumentError, match="no_such_setting"):
        LinearCrossEntropyLoss(
            IN, 6000, options=HashedOptions(hash={"no_such_setting": 1}), cluster=cluster
        )


@pytest.mark.parametrize("mode", ["mean", "sum"])
def test_is_the_bag_of_pytorch(mode: str, cluster: dslide.LocalCluster) -> None:
    theirs = torch.nn.EmbeddingBag(40, 6, mode=mode, padding_idx=5)
    ours = WideEmbeddingBag(40, 6, mode=mode, padding_idx=5, cluster=cluster, optimizer=SGD)
    ours.load_state_dict(theirs.state_dict())
    optimizer = torch.optim.SGD(theirs.parameters(), SGD["learning_rate"])
    ids, offsets = torch.tensor([1, 5, 1, 2, 39, 5]), torch.tensor([0, 4, 4, 5])
    pairs = torch.randint(40, (3, 4))
    weights = torch.rand(3, 4) if mode == "sum" else None
    for _ in range(3):
        optimizer.zero_grad()
        total = 0.0
        for module in (theirs, ours):
            a, b = module(ids, offsets), module(pairs, per_sample_weights=weights)
            (a.square().sum() + b.sum()).backward()
            total = a.sum().item() - total
        assert abs(total) < CLOSE
        optimizer.step()
    torch.testing.assert_close(ours.state_dict()["weight"], theirs.weight.data, atol=1e-4, rtol=0)
    ours.close()


def test_says_what_it_does_not_take(cluster: dslide.LocalCluster) -> None:
    with pytest.raises(NotImplementedError, match="mode is 'max'"):
        WideEmbeddingBag(4, 2, mode="max", cluster=cluster)
    with pytest.raises(RuntimeError, match="weight has shape"):
        LinearCrossEntropyLoss(2, 3, weight=torch.ones(2), cluster=cluster)
    with pytest.raises(RuntimeError, match="label_smoothing is 2"):
        LinearCrossEntropyLoss(2, 3, label_smoothing=2, cluster=cluster)
    loss = LinearCrossEntropyLoss(2, 3, cluster=cluster)
    x = torch.zeros(2, 2)
    for target, error, words in (
        (torch.tensor([0, 3]), IndexError, "target 3 is outside"),
        (torch.tensor([0]), ValueError, "must be class ids"),
        (torch.tensor([[0.5, -0.5, 1], [0, 0, 1]]), ValueError, "must not be negative"),
        ([0, 1], TypeError, "target is list"),
    ):
        with pytest.raises(error, match=words):
            loss(x, target)
    with pytest.raises(dslide.InvalidArgumentError, match="at most .* samples"):
        loss(torch.zeros(600_000, 2), torch.zeros(600_000, dtype=torch.int64))
    with pytest.raises(RuntimeError, match="size mismatch for linear.weight"):
        loss.load_state_dict({"linear.weight": torch.zeros(2, 2)})
    with pytest.raises(TypeError, match="save state_dict"):
        pickle.dumps(loss)
    loss.close()


def test_goes_on_with_a_model_of_its_name(
    cluster: dslide.LocalCluster, tmp_path: pathlib.Path
) -> None:
    first = LinearCrossEntropyLoss(IN, CLASSES, cluster=cluster, name="kept-head")
    first(torch.randn(BATCH, IN), _class_ids()).backward()
    again = LinearCrossEntropyLoss(IN, CLASSES, cluster=cluster.address, name="kept-head")
    for key, value in first.state_dict().items():
        assert torch.equal(again.state_dict()[key], value)
    with pytest.raises(dslide.FailedPreconditionError):
        LinearCrossEntropyLoss(IN, CLASSES + 1, cluster=cluster, name="kept-head")
    first.close()
    again.close()
