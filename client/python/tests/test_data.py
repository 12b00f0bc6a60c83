"""Data from files and arrays, and what is refused."""

from __future__ import annotations

import gzip
import lzma
import pathlib

import numpy as np
import pytest

import dslide
from dslide.data import transform
from dslide.order import TrainingSplit
from dslide.spec import fit_spec

TEXT = "4 10 8\n1,3 2:0.5 7:1\n 4:2\n5\n0 9:1e-3 1:-2.25 3:16777217\n"


def _file(folder: pathlib.Path, text: str | bytes, name: str = "data.txt") -> pathlib.Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_a_file_is_read(tmp_path: pathlib.Path) -> None:
    data = dslide.read_sparse(_file(tmp_path, TEXT))
    assert (data.num_points, data.num_features, data.num_labels) == (4, 10, 8)
    assert data.features.offsets.tolist() == [0, 2, 3, 3, 6]
    assert data.features.ids.tolist() == [2, 7, 4, 1, 3, 9]
    np.testing.assert_array_equal(
        data.features.values, np.array([0.5, 1, 2, -2.25, 16777217, 1e-3], np.float32)
    )
    assert data.labels.offsets.tolist() == [0, 2, 2, 3, 4]
    assert data.labels.ids.tolist() == [1, 3, 5, 0]


@pytest.mark.parametrize("squeeze", [gzip.compress, lzma.compress])
def test_compressed_and_windows_files_are_the_same(tmp_path: pathlib.Path, squeeze: object) -> None:
    plain = dslide.read_sparse(_file(tmp_path, TEXT))
    packed = dslide.read_sparse(_file(tmp_path, squeeze(TEXT.encode()), "packed"))  # type: ignore[operator]
    assert packed.fingerprint == plain.fingerprint
    windows = dslide.read_sparse(_file(tmp_path, TEXT.replace("\n", "\r\n"), "windows"))
    np.testing.assert_array_equal(windows.features.ids, plain.features.ids)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "1:1: found"),
        ("1 2\n0 1:1\n", "1:1: found b'1 2'"),
        ("0 2 2\n", "1:1"),
        ("2 10 8\n1 2:1\n", "3:1: found 1 points, expected 2"),
        ("1 10 8\n1 2:1\n3 4:1\n", "3:1: found 2 points, expected 1"),
        (
            "1 10 8\n1 10:1\n",
            r"2:3: found '10:1', expected feature:value with a feature id in \[0, 10\)",
        ),
        ("1 10 8\n1,8 2:1\n", r"2:3: found '8', expected a label id in \[0, 8\)"),
        ("2 10 8\n1 2:1\n1 2:x\n", "3:5: found 'x', expected a finite"),
        ("1 10 8\n1 2:nan\n", "2:5: found 'nan'"),
        ("1 10 8\n1 2:1e99\n", "2:5"),
        ("1 10 8\n1 2:\n", "2:5: found 'nothing'"),
        ("1 10 8\n1 2\n", "2:3: found '2'"),
        ("1 10 8\n2:1\n", "2:1: found '2:1'"),
        ("1 10 8\n1, 2:1\n", "2:3: found 'nothing'"),
        ("1 10 8\n1 2:1:3\n", "2:5"),
        ("1 10 8\n 2:1,3:4\n", "found"),
        ("1 10 8\n1 2:1 2:3\n", "point 0 has id 2 twice"),
        ("2 10 8\n1 2:1\n\n1 2:1\n", "3:1"),
        ("1 10 8\n1 2:1_0\n", "2:5"),
        ("1 10 8\n-1 2:1\n", "2:1"),
        ("1 10 8\n1 +2:1\n", "2:3"),
    ],
)
def test_malformed_files(tmp_path: pathlib.Path, text: str, words: str) -> None:
    with pytest.raises(dslide.InvalidArgumentError, match=words) as caught:
        dslide.read_sparse(_file(tmp_path, text))
    assert str(tmp_path) in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: pathlib.Path) -> None:
    with pytest.raises(dslide.NotFoundError, match="nothing.txt"):
        dslide.read_sparse(tmp_path / "nothing.txt")


def test_a_cut_archive_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(dslide.InvalidArgumentError, match="cannot read"):
        dslide.read_sparse(_file(tmp_path, gzip.compress(TEXT.encode())[:-9]))


def test_arrays_are_the_same_points(tmp_path: pathlib.Path) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    read = dslide.read_sparse(_file(tmp_path, TEXT))
    x = sparse.csr_matrix(
        (read.features.values, read.features.ids, read.features.offsets), shape=(4, 10)
    )
    lists = [[3, 1], [], [5], [0]]
    y = sparse.lil_matrix((4, 8))
    for i, labels in enumerate(lists):
        y[i, labels] = 1
    for labels in (lists, y.tocsr()):
        made = dslide.from_arrays(x, labels, num_labels=8)
        np.testing.assert_array_equal(made.features.ids, read.features.ids)
        np.testing.assert_array_equal(made.labels.ids, read.labels.ids)
        assert (made.num_features, made.num_labels) == (10, 8)
    other = dslide.from_arrays(x * 2, lists, num_labels=8)
    assert other.fingerprint != dslide.from_arrays(x, lists, num_labels=8).fingerprint


@pytest.mark.parametrize(
    ("x", "labels", "words"),
    [
        ([[1, 2]], [[0]], "x is list"),
        (([1.0], [0], [0, 1]), [[0], [1]], "x has 1 points, labels has 2"),
        (([np.nan], [0], [0, 1]), [[0]], "value 0 is nan"),
        (([1.0], [-1], [0, 1]), [[0]], "an index"),
        (([1.0], [0], [0, 2]), [[0]], "indptr"),
        (([1.0, 1.0], [3, 3], [0, 2]), [[0]], "id 3 twice"),
        (([1.0], [0], [0, 1]), [[-1]], "labels must be integers"),
        (([1.0], [0], [0, 1]), [[0.5]], "labels must be integers"),
    ],
)
def test_wrong_arrays(x: object, labels: object, words: str) -> None:
    with pytest.raises(dslide.InvalidArgumentError, match=words):
        dslide.from_arrays(x, labels)


def test_values_have_length_1(tmp_path: pathlib.Path) -> None:
    data = dslide.read_sparse(_file(tmp_path, TEXT))
    idf = np.linspace(0.5, 2, 10).astype(np.float32)
    for kind in ("l2", "tf_idf"):
        changed = transform(data.features, kind, idf)
        assert changed.values is not None
        squares = np.add.reduceat(changed.values.astype(float) ** 2, [0, 2, 3])
        np.testing.assert_allclose(squares, 1, rtol=1e-6)


def test_specs_fit_the_data_or_say_why_not() -> None:
    spec = dslide.load_spec(
        {
            "name": "m",
            "tables": [
                {"name": "a", "dim": 4, "bias_row": True},
                {"name": "b", "role": "head", "dim": 4},
            ],
        }
    )
    fitted = fit_spec(spec, 10, 100_000)
    assert [table.rows for table in fitted.tables] == [11, 100_000]
    hashing = fitted.tables[1].head.hash
    assert (hashing.codes_per_table, hashing.num_tables, hashing.rebuild_every_steps) == (8, 12, 50)
    fitted.tables[1].rows = 7
    with pytest.raises(dslide.InvalidArgumentError, match="'b'.*7 rows.*100000"):
        fit_spec(fitted, 10, 100_000)
    with pytest.raises(dslide.InvalidArgumentError, match="'embeding'.*embedding"):
        dslide.load_spec({"tables": [{"role": "embeding"}]})
    with pytest.raises(dslide.InvalidArgumentError, match="training.*max_epochs.*'x'"):
        dslide.load_spec({"training": {"max_epochs": "x"}, "tables": [{"name": "a"}]})
    with pytest.raises(
        dslide.InvalidArgumentError, match=r"learning_rat\" at .*tables\[0\].optimizer"
    ):
        dslide.load_spec({"tables": [{"optimizer": {"learning_rat": 1}}]})


def test_a_split_keeps_its_bounds() -> None:
    with pytest.raises(dslide.InvalidArgumentError, match="0.7"):
        TrainingSplit(10, 1, 0.7, 0)
    with pytest.raises(dslide.InvalidArgumentError, match="at least 1"):
        TrainingSplit(0, 1, 0.1, 0)
