"""PECOS XR-Linear with its defaults: hierarchical 16-means over PIFA label features, beam 20.

Several trees differ in the seed of their clustering; their scores are averaged.
"""

import collections
import pathlib

import peer
from pecos.xmc import Indexer, LabelEmbeddingFactory
from pecos.xmc.xlinear.model import XLinearModel


def train(data: peer.Prepared, model: pathlib.Path, seed: int, trees: int) -> None:
    y = data.train_y.tocsc()
    features = LabelEmbeddingFactory.create(y, data.train_x, method="pifa")
    for tree in range(trees):
        chain = Indexer.gen(features, indexer_type="hierarchicalkmeans", seed=trees * seed + tree)
        XLinearModel.train(data.train_x, y, C=chain).save(str(model / f"tree-{tree}"))


def load(data: peer.Prepared, model: pathlib.Path) -> peer.Ranker:
    trees = [
        XLinearModel.load(str(folder), is_predict_only=True) for folder in sorted(model.iterdir())
    ]
    rows = [data.test_x[point] for point in range(data.test_x.shape[0])]

    def rank(point: int, k: int) -> list[int]:
        scores: collections.Counter[int] = collections.Counter()
        for tree in trees:
            found = tree.predict(rows[point], threads=1)
            for label, score in zip(found.indices.tolist(), found.data.tolist()):
                scores[label] += score
        return [label for label, _ in scores.most_common(k)]

    return rank


if __name__ == "__main__":
    peer.main(["train_x", "train_y"], train, load)
