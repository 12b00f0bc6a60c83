"""A transformer that predicts the next word of a text; its head, a row for each word, is on shards.

usage: transformer.py FILE "the beginning of a sentence"

Needs pip install 'dslide[torch]'.
"""

import re
import sys

import torch

import dslide
import dslide.torch

DIM, LENGTH, BATCH, STEPS = 64, 8, 64, 300

path, beginning = sys.argv[1:]
with open(path, encoding="utf-8") as file:
    text = re.findall(r"\w+", file.read().lower())
words = sorted(set(text))
number = {word: i for i, word in enumerate(words)}
ids = torch.tensor([number[word] for word in text])


class Encoder(torch.nn.Module):
    """A vector for each place of a sequence, which sees the words up to there."""

    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(len(words), DIM)
        self.places = torch.nn.Embedding(LENGTH, DIM)
        layer = torch.nn.TransformerEncoderLayer(DIM, 4, 4 * DIM, 0.1, batch_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, 2)

    def forward(self, x):
        length = x.shape[1]
        mask = torch.nn.Transformer.generate_square_subsequent_mask(length)
        return self.layers(self.words(x) + self.places(torch.arange(length)), mask=mask)


torch.manual_seed(1)
encoder = Encoder()
optimizer = torch.optim.Adam(encoder.parameters(), 0.001)
with dslide.local() as cluster:
    head = dslide.torch.LinearCrossEntropyLoss(
        DIM, len(words), cluster=cluster, optimizer={"kind": "adam", "learning_rate": 0.005}
    )
    for _ in range(STEPS):
        first = torch.randint(len(ids) - LENGTH, (BATCH, 1))
        sequence = ids[first + torch.arange(LENGTH + 1)]
        optimizer.zero_grad()
        hidden = encoder(sequence[:, :-1]).reshape(-1, DIM)
        loss = head(hidden, sequence[:, 1:].reshape(-1))
        loss.backward()  # the shards update the head's rows here
        optimizer.step()
    encoder.eval()
    known = [number[word] for word in re.findall(r"\w+", beginning.lower()) if word in number]
    with torch.no_grad():
        last = encoder(torch.tensor([known[-LENGTH:]]))[:, -1]
    scores, best = head.predict(last, k=3)
print(f"{len(words)} words, loss {loss.item():.2f}")
print(f"{beginning} …: {', '.join(words[i] for i in best[0])}")
