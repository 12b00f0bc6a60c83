"""fastText, supervised, a word for each feature, as its tutorial advises for several labels.

https://fasttext.cc/docs/en/supervised-tutorial.html: one-vs-all loss, rate 0.5, 25 epochs, width
50; hierarchical softmax where labels are many, as one-vs-all visits all labels for every point
(an hour of a processor for 40,000 labels and 50,000 points). Its word pairs are left out:
features have no order. Where a rate diverges, a fifth of it comes next, and what was spent
counts.
"""

import pathlib

import fasttext
import peer

_PREFIX = len("__label__")
_MANY_LABELS = 10_000
_RATES = (0.5, 0.1, 0.02)
# Version 0.9.3 draws first weights in tenths, one a thread, and what is left over: with fewer
# threads the rest is what was in memory, and most trainings end with NaN.
_THREADS = 11


def train(data: peer.Prepared, model: pathlib.Path, seed: int, trees: int) -> None:
    del trees
    loss = "hs" if data.train_y.shape[1] > _MANY_LABELS else "ova"
    for rate in _RATES:
        try:
            trained = fasttext.train_supervised(
                str(data.words_train),
                loss=loss,
                lr=rate,
                epoch=25,
                dim=50,
                seed=seed,
                thread=_THREADS,
                verbose=0,
            )
        except RuntimeError as error:
            if rate == _RATES[-1] or "NaN" not in str(error):
                raise
        else:
            trained.save_model(str(model / "model.bin"))
            return


def load(data: peer.Prepared, model: pathlib.Path) -> peer.Ranker:
    trained = fasttext.load_model(str(model / "model.bin"))
    lines = data.words_test.read_text(encoding="ascii").splitlines()
    return lambda point, k: [int(label[_PREFIX:]) for label in trained.predict(lines[point], k)[0]]


if __name__ == "__main__":
    peer.main(["train_y"], train, load)
