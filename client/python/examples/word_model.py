"""Learns which words stand near each other in a text, and names the words most like some.

usage: word_model.py FILE WORD...

A word's row of the head becomes its vector: words in like surroundings have like vectors.
"""

import re
import sys
from collections import Counter

import numpy as np

import dslide

WINDOW, LEAST = 2, 5  # words on each side; times that a word has to occur

path, *questions = sys.argv[1:]
with open(path, encoding="utf-8") as file:
    lines = [re.findall(r"\w+", line.lower()) for line in file]
counts = Counter(word for line in lines for word in line)
words = [word for word, count in counts.most_common() if count >= LEAST]
number = {word: i for i, word in enumerate(words)}

centres, neighbours = [], []
for line in lines:
    ids = [number[word] for word in line if word in number]
    for i, centre in enumerate(ids):
        near = {*ids[max(0, i - WINDOW) : i], *ids[i + 1 : i + 1 + WINDOW]} - {centre}
        if near:
            centres.append(centre)
            neighbours.append(sorted(near))
points = dslide.from_arrays(
    (np.ones(len(centres), np.float32), np.array(centres), np.arange(len(centres) + 1)),
    neighbours,
    num_features=len(words),
    num_labels=len(words),
    feature_names=words,
    label_names=words,
)
adam = {"kind": "adam", "learning_rate": 0.01}
spec = {
    "name": "words",
    "tables": [
        {"name": "input", "role": "embedding", "dim": 64, "optimizer": adam},
        {
            "name": "near",
            "role": "head",
            "dim": 64,
            "optimizer": adam,
            "init": {"scale": 0.01},  # so that little of the first values is left
        },
    ],
    "training": {"batch_size": 64, "max_epochs": 10},
}
with dslide.local(shards=2) as cluster:
    with dslide.Trainer(cluster, spec, points) as trainer:
        report = trainer.train()
    vectors = cluster.model("words").gather("near", np.arange(len(words)))
print(f"{len(words)} words, {len(centres)} points, loss {report.last_loss:.2f}")
vectors -= vectors.mean(axis=0)
vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
for word in questions:
    best = np.argsort(-(vectors @ vectors[number[word]]))[1:4]
    print(f"{word}: {', '.join(words[i] for i in best)}")
