"""A retriever of two towers: queries and items become vectors, near where they belong together.

usage: two_towers.py FILE "a query"    FILE: lines of a query, a tab, and the text of its item

The words' rows lie on shards, as does the index of the items; the towers are PyTorch's. Needs
pip install 'dslide[torch]'.
"""

import re
import sys

import numpy as np
import torch

import dslide
import dslide.torch

DIM, BATCH, EPOCHS = 64, 64, 20

path, question = sys.argv[1:]
with open(path, encoding="utf-8") as file:
    pairs = [line.rstrip("\n").split("\t") for line in file]
queries, texts = zip(*pairs)
items = sorted(set(texts))
vocabulary: dict[str, int] = {}


class Tower(torch.nn.Module):
    """Texts to vectors of length 1."""

    def __init__(self, cluster, words):
        super().__init__()
        adam = {"kind": "adam", "learning_rate": 0.01}
        self.words = dslide.torch.WideEmbeddingBag(words, DIM, cluster=cluster, optimizer=adam)
        self.layers = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(DIM, DIM))

    def forward(self, texts):
        lists = [
            [vocabulary[word] for word in re.findall(r"\w+", text.lower()) if word in vocabulary]
            for text in texts
        ]
        ids = torch.tensor([word for some in lists for word in some], dtype=torch.int64)
        starts = torch.tensor([0, *np.cumsum([len(some) for some in lists])[:-1]])
        return torch.nn.functional.normalize(self.layers(self.words(ids, starts)), dim=1)


for text in queries + texts:
    for word in re.findall(r"\w+", text.lower()):
        vocabulary.setdefault(word, len(vocabulary))

torch.manual_seed(1)
with dslide.local() as cluster:
    query_tower, item_tower = (Tower(cluster, len(vocabulary)) for _ in range(2))
    layers = [*query_tower.layers.parameters(), *item_tower.layers.parameters()]
    optimizer = torch.optim.Adam(layers, 0.003)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(pairs)).split(BATCH):
            optimizer.zero_grad()
            q = query_tower([queries[i] for i in batch])
            # Every item of the batch once: it is no wrong answer to its other queries.
            kept = list(dict.fromkeys(texts[i] for i in batch))
            right = torch.tensor([kept.index(texts[i]) for i in batch])
            loss = torch.nn.functional.cross_entropy(10 * q @ item_tower(kept).T, right)
            loss.backward()
            optimizer.step()

    # The index: a row for each item, which the shards search.
    index = cluster.create_model(
        {
            "name": "items",
            "tables": [{"name": "rows", "role": "head", "rows": len(items), "dim": DIM}],
        }
    )
    with torch.no_grad():
        index.scatter("rows", np.arange(len(items)), item_tower(items).numpy(), mode="assign")
        found = index.top_k("rows", query_tower(queries).numpy(), k=1).ids[:, 0]
        best = index.top_k("rows", query_tower([question]).numpy(), k=3).ids[0]
right = np.mean([items[i] == text for i, text in zip(found, texts)])
print(f"loss {loss.item():.3f}, the item of {100 * right:.0f} % of the queries is found first")
print(f"{question}: {'; '.join(items[i] for i in best)}")
