"""The commands of the examples' page learn what is planted in small data of the forms it names."""

from __future__ import annotations

import csv
import importlib.util
import os
import pathlib
import random
import re
import shlex
import subprocess
import sys

import pytest
from conftest import ROOT

PAGE = ROOT / "docs" / "start" / "examples.md"
FOLDER = "client/python/examples"
NEED_TORCH = ("two_towers.py", "transformer.py")
ANIMALS, FOODS = ("cat", "dog", "cow", "fox"), ("fish", "meat", "grass", "eggs")
# A label or item -> what is said of it.
TOPICS = {
    "baking": ["bake", "bread", "oven", "dough"],
    "sailing": ["sail", "wind", "harbour", "knots"],
    "gardens": ["plant", "seeds", "soil", "roses"],
    "chess": ["open", "pawn", "mate", "endgame"],
    "running": ["marathon", "shoes", "pace", "stretch"],
    "painting": ["brush", "canvas", "colours", "portrait"],
}


def _commands() -> dict[str, list[str]]:
    """The page's commands, by the name of the example."""
    found = {}
    for line in re.findall(rf"^\.venv/bin/python {FOLDER}/(.*)$", PAGE.read_text("utf-8"), re.M):
        name, *arguments = shlex.split(line)
        found[name] = arguments
    return found


def _write_articles(path: pathlib.Path, rng: random.Random) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["title", "tags"])
        for _ in range(400):
            some = rng.sample(sorted(TOPICS), rng.choice((1, 2)))
            words = [word for topic in some for word in rng.sample(TOPICS[topic], 3)]
            out.writerow([" ".join(["how to", *words]), "; ".join(some)])


def _write_text(path: pathlib.Path, rng: random.Random) -> None:
    """Animals stand in like surroundings, and so do foods."""
    lines = [
        f"the big {rng.choice(ANIMALS)} often eats raw {rng.choice(FOODS)}" for _ in range(400)
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _write_questions(path: pathlib.Path, rng: random.Random) -> None:
    """Queries have words of their own, which say nothing about those of the item."""
    lines = []
    for topic, words in TOPICS.items():
        for _ in range(60):
            lines.append(f"how to {' '.join(rng.sample(words, 2))}\tAll about {topic}")
    rng.shuffle(lines)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _run(name: str, folder: pathlib.Path, bin_dir: pathlib.Path) -> tuple[str, list[str]]:
    """What the command of the page says: the first line, and the answers of the last one."""
    if name in NEED_TORCH and importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed: ./run clients --with-torch")
    rng = random.Random(7)
    _write_articles(folder / "articles.csv", rng)
    _write_text(folder / "text.txt", rng)
    _write_questions(folder / "questions.tsv", rng)
    done = subprocess.run(
        [sys.executable, ROOT / FOLDER / name, *_commands()[name]],
        cwd=folder,
        env={**os.environ, "DSLIDE_BINARY": str(bin_dir / "dslide")},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    first, last = done.stdout.splitlines()
    return first, re.split("[,;] ", last.partition(": ")[2])


def test_the_page_has_every_example() -> None:
    assert sorted(_commands()) == sorted(path.name for path in (ROOT / FOLDER).glob("*.py"))


def test_labels_of_a_csv_file_are_learnt(tmp_path: pathlib.Path, bin_dir: pathlib.Path) -> None:
    first, best = _run("classify_csv.py", tmp_path, bin_dir)
    assert float(first.split()[1]) > 0.9, first
    assert best[0] == "baking"


def test_words_in_like_surroundings_are_alike(
    tmp_path: pathlib.Path, bin_dir: pathlib.Path
) -> None:
    _, best = _run("word_model.py", tmp_path, bin_dir)
    assert {"cat", *best} == set(ANIMALS)


def test_items_are_found_by_their_queries(tmp_path: pathlib.Path, bin_dir: pathlib.Path) -> None:
    first, best = _run("two_towers.py", tmp_path, bin_dir)
    found = re.search(r"of (\d+) % of the queries", first)
    assert found and int(found[1]) > 95, first
    assert best[0] == "All about baking"


def test_the_next_word_is_predicted(tmp_path: pathlib.Path, bin_dir: pathlib.Path) -> None:
    _, best = _run("transformer.py", tmp_path, bin_dir)
    assert best[0] == "often"
