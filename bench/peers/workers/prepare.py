"""Makes of a data set the weighted features that the peers read.

usage: prepare.py TRAIN TEST FOLDER    sparse text in, matrices and sparse text out

A feature's value is (1 + ln tf) * ln((N + 1) / (df + 1)) over the training part, rows of unit
length. Below 1 a value is not damped, as in docs/start/data.md.
"""

import pathlib
import sys
from collections.abc import Iterable, Sequence

import numpy
import scipy.sparse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import sparse_text  # noqa: E402


def matrix(
    ids: Sequence[Sequence[int]], values: Iterable[float] | None, columns: int
) -> scipy.sparse.csr_matrix:
    """A row for each of `ids`; values 1 where there are none."""
    starts = numpy.cumsum([0, *map(len, ids)])
    flat = numpy.fromiter((i for row in ids for i in row), numpy.int32, starts[-1])
    data = (
        numpy.ones(starts[-1], numpy.float32)
        if values is None
        else numpy.fromiter(values, numpy.float32, starts[-1])
    )
    made = scipy.sparse.csr_matrix((data, flat, starts), shape=(len(ids), columns))
    made.sort_indices()
    return made


def features_of(points: sparse_text.Points) -> scipy.sparse.csr_matrix:
    flat = (value for row in points.values for value in row)
    return matrix(points.feature_ids, flat, points.features)


def weigh(counts: scipy.sparse.csr_matrix, idf: numpy.ndarray) -> scipy.sparse.csr_matrix:
    """Damped values times `idf`, rows of unit length; a row of zeros stays one."""
    weighted = counts.copy()
    size = numpy.abs(weighted.data)
    damped = numpy.where(size < 1, size, 1 + numpy.log(numpy.maximum(size, 1)))
    weighted.data = numpy.sign(weighted.data) * damped * idf[weighted.indices]
    return unit_rows(weighted)


def unit_rows(values: scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix:
    """Rows of unit length; a row of zeros stays one."""
    lengths = numpy.sqrt(numpy.asarray(values.multiply(values).sum(axis=1)).ravel())
    scale = scipy.sparse.diags(1 / numpy.where(lengths > 0, lengths, 1))
    result = scipy.sparse.csr_matrix(scale @ values, dtype=numpy.float32)
    result.sort_indices()  # the product need not be; PECOS refuses others
    return result


def inverse_document_frequency(counts: scipy.sparse.csr_matrix) -> numpy.ndarray:
    present = numpy.bincount(counts.indices, minlength=counts.shape[1])
    return numpy.log((counts.shape[0] + 1) / (present + 1))


def write_weighted(
    path: pathlib.Path, points: sparse_text.Points, x: scipy.sparse.csr_matrix
) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(f"{x.shape[0]} {points.features} {points.labels}\n")
        for row, labels in enumerate(points.label_ids):
            mine = slice(x.indptr[row], x.indptr[row + 1])
            pairs = (f"{i}:{value:.7g}" for i, value in zip(x.indices[mine], x.data[mine]))
            file.write(f"{','.join(map(str, labels))} {' '.join(pairs)}\n")


def main() -> None:
    train_path, test_path, folder = map(pathlib.Path, sys.argv[1:])
    train, test = sparse_text.read(train_path), sparse_text.read(test_path)
    counts = features_of(train)
    idf = inverse_document_frequency(counts)
    x = weigh(counts, idf)
    scipy.sparse.save_npz(folder / "train_x.npz", x, compressed=False)
    scipy.sparse.save_npz(folder / "test_x.npz", weigh(features_of(test), idf), compressed=False)
    scipy.sparse.save_npz(
        folder / "train_y.npz", matrix(train.label_ids, None, train.labels), compressed=False
    )
    write_weighted(folder / "weighted.txt", train, x)


if __name__ == "__main__":
    main()
