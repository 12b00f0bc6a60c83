"""omikuji with its defaults: Parabel, balanced 2-means, beam 10. It draws its own seeds."""

import pathlib

import omikuji
import peer


def train(data: peer.Prepared, model: pathlib.Path, seed: int, trees: int) -> None:
    del seed
    parameters = omikuji.Model.default_hyper_param()
    parameters.n_trees = trees
    omikuji.Model.train_on_data(str(data.weighted_train), parameters).save(str(model))


def load(data: peer.Prepared, model: pathlib.Path) -> peer.Ranker:
    forest = omikuji.Model.load(str(model))
    forest.init_prediction_thread_pool(1)
    x = data.test_x
    rows = [
        list(zip(x.indices[begin:end].tolist(), x.data[begin:end].tolist()))
        for begin, end in zip(x.indptr, x.indptr[1:])
    ]
    return lambda point, k: [label for label, _ in forest.predict(rows[point], top_k=k)]


if __name__ == "__main__":
    peer.main([], train, load)
