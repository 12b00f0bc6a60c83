"""Learns the labels of texts from a CSV file with a heading, and predicts those of a new text.

usage: classify_csv.py FILE TEXT_COLUMN LABEL_COLUMN "a new text"

Semicolons separate the labels of a row. Needs pip install 'dslide[sklearn]'.
"""

import csv
import sys

from sklearn.feature_extraction.text import TfidfVectorizer

import dslide

path, text_column, label_column, question = sys.argv[1:]
with open(path, newline="", encoding="utf-8") as file:
    rows = list(csv.DictReader(file))
texts = [row[text_column] for row in rows]
labels = [{name.strip() for name in row[label_column].split(";")} for row in rows]
names = sorted(set.union(*labels))
number = {name: i for i, name in enumerate(names)}
y = [[number[name] for name in some] for some in labels]

vectorizer = TfidfVectorizer(sublinear_tf=True)
x = vectorizer.fit_transform(texts)
test = range(0, len(rows), 10)  # every tenth row
train = sorted(set(range(len(rows))) - set(test))

classifier = dslide.WideClassifier(hidden_dropout=0.3, random_state=1)
classifier.fit(x[train], [y[i] for i in train])
print(f"P@1 {classifier.score(x[test], [y[i] for i in test]):.3f} of {len(test)} rows")
best = classifier.predict(vectorizer.transform([question]), top_k=3)[0]
print(f"{question}: {', '.join(names[i] for i in best)}")
