"""The data sets of the papers: how they are found, thinned and trained. Trains nothing."""

import gzip
import lzma
import pathlib
from collections.abc import Callable
from typing import Any

import measured_child
import paper_tables
import published_sets
import pytest
import samples
import trainings

SETS = {published.name: published for published in published_sets.SETS}
AMAZON = SETS["Amazon-670K"]


def write(path: pathlib.Path, text: str = "1 2 3\n0 1:1\n") -> pathlib.Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="ascii")
    return path


def sparse(path: pathlib.Path, points: int) -> pathlib.Path:
    lines = "".join(f"{at % 3} {at % 5}:1\n" for at in range(points))
    return write(path, f"{points} 5 3\n{lines}")


@pytest.mark.parametrize(("name", "train"), [
    ("Delicious-200K", "DeliciousLarge/deliciousLarge_train.txt"),
    ("Amazon-670K", "Amazon-670K.bow/train.txt"),
    ("Amazon-670K", "Amazon-670K/amazon_train.txt.xz"),
    ("WikiLSHTC-325K", "wikiLSHTC_train.txt"),
])
def test_published_layouts_are_found(name: str, train: str, tmp_path: pathlib.Path) -> None:
    assert published_sets.find(SETS[name], tmp_path) is None
    path = write(tmp_path / train)
    # One part alone is no set.
    assert published_sets.find(SETS[name], tmp_path) is None
    test = write(tmp_path / train.replace("train", "test"))
    found = published_sets.find(SETS[name], tmp_path)
    assert (found.train, found.test, found.is_text) == (path, test, False)


def test_points_are_taken_evenly(tmp_path: pathlib.Path) -> None:
    path = samples.thin(sparse(tmp_path / "all.txt", 10), 4, tmp_path / "few.txt")
    lines = path.read_text().splitlines()
    assert lines[0] == "4 5 3"
    assert [line.split()[1] for line in lines[1:]] == ["2:1", "4:1", "2:1", "4:1"]


@pytest.mark.parametrize("most", [10, 11, None])
def test_a_small_file_stays_where_it_is(most: int | None, tmp_path: pathlib.Path) -> None:
    path = sparse(tmp_path / "all.txt", 10)
    assert samples.thin(path, most, tmp_path / "few.txt") == path
    assert not (tmp_path / "few.txt").exists()


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_packed_files_are_thinned(
        suffix: str, pack: Callable[[bytes], bytes], tmp_path: pathlib.Path) -> None:
    packed = tmp_path / f"all.txt{suffix}"
    packed.write_bytes(pack(sparse(tmp_path / "all.txt", 10).read_bytes()))
    assert samples.header(packed) == (10, 5, 3)
    assert samples.header(samples.thin(packed, 5, tmp_path / "few.txt")) == (5, 5, 3)


@pytest.mark.parametrize("text", ["0 1:1\n", "", "a b c\n"])
def test_another_format_is_refused(text: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="points features labels"):
        samples.header(write(tmp_path / "x.txt", text))


@pytest.mark.parametrize(("points", "test_points", "train", "test"), [
    (None, 1, "a b c d e f g h\n", "i\n"), (3, 9, "a b c\n", "i j\n")])
def test_a_text_is_cut_by_words(points: int | None, test_points: int, train: str, test: str,
                                tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "text8", " ".join("abcdefghij"))
    cut = samples.split_text(path, points, test_points, tmp_path)
    assert [part.read_text() for part in cut] == [train, test]
    words = len(train.split())
    assert samples.text_shape(cut[0]) == (words, words, words)


def spec_and_head(name: str, hashed: bool = True) -> Any:
    spec = trainings.spec_of(name, SETS[name].settings, 670_091, hashed)
    return spec, spec["tables"][1]["head"]


def test_the_settings_of_the_papers() -> None:
    spec, head = spec_and_head("Amazon-670K")
    assert spec["training"]["batch_size"] == 256
    assert [table["dim"] for table in spec["tables"]] == [128, 128]
    assert (head["max_active"], head["tail_rows"]) == (3350, 0)
    assert spec_and_head("WikiLSHTC-325K")[1]["hash"]["num_tables"] == 256  # no more can be
    dense = spec_and_head("Text8", hashed=False)[1]
    assert (dense["max_active"], "hash" in dense) == (0, False)
    fields = ("family", "codes_per_table", "num_tables")
    assert [head["hash"][field] for field in fields] == ["dwta", 8, 50]


def run_training(kind: str, points: int, folder: pathlib.Path) -> Any:
    found = published_sets.Found(
        AMAZON, sparse(folder / "train.txt", points), sparse(folder / "test.txt", 10))
    limits = trainings.Limits(points=None, test_points=100, epochs=5, seconds=60)
    prepared = trainings.Prepared.of(found, folder, limits)
    return trainings.run(kind, "x", AMAZON.settings, prepared, folder)


def test_the_dense_network_is_left_out_where_it_takes_too_long(
        tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # What `dense` does where the baseline is so fast; a training is not begun.
    usage = measured_child.Usage(1.0, 1.0, 1, '{"samples_per_second": 10}\n')
    monkeypatch.setattr(measured_child, "run", lambda *_, **__: usage)
    trained = {"p_at_1": 0.5, "wall_seconds": 1}
    monkeypatch.setattr(trainings, "_train", lambda *_, **__: dict(trained))
    assert run_training("dense", 100, tmp_path)["p_at_1"] == 0.5
    left_out = run_training("dense", 200, tmp_path)["left_out"]
    assert "100 s" in left_out and "60 s" in left_out


def test_what_was_not_measured_is_named() -> None:
    figures = dict.fromkeys(("p_at_1", "p_at_3", "p_at_5"), 0.25) | {
        "epochs": None, "seconds": 10.0, "samples_per_second": 100.0,
        "active_rows_per_sample": 20.0, "wall_seconds": 12.0, "cpu_seconds": 20.0,
        "peak_rss_bytes": 5e8}
    wiki = {
        "points": 1000, "features": 50, "labels": 4000, "hidden": 128, "batch": 256,
        "family": "dwta", "codes_per_table": 5, "num_tables": 350, "num_tables_here": 256,
        "paper": "a paper", "runs": {"papers": figures, "dense": {"left_out": "too slow"}}}
    text = paper_tables.page({
        "titles": trainings.TITLES, "points_at_most": 1000, "test_points_at_most": 100,
        "absent": {"Text8": published_sets.wanted(SETS["Text8"])},
        "sets": {"WikiLSHTC-325K": wiki}})
    (row,) = [line for line in text.splitlines() if "papers' settings | 0.2500" in line]
    assert "–" in row and "0.50 %" in row
    for part in ("L = 350 (256 here)", "Left out: dslide, all rows active: too slow.",
                 "Not there: Text8: get it from", "at most 1,000 points"):
        assert part in text
