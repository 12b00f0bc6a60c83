"""The arithmetic of a trainer, where it is not C++'s bit for bit already."""

from __future__ import annotations

import numpy as np
import pytest

from dslide import _network, arrays
from dslide.ragged import Ragged
from dslide.v1 import model_pb2


def samples() -> Ragged:
    return Ragged(
        np.array([0, 2, 2, 3, 5]),
        np.array([0, 2, 5, 3, 4], dtype=np.uint32),
        np.array([3, 4, 2, 1, 1], dtype=np.float32),
    )


def test_the_bias_row_stands_behind_the_features_of_a_table_as_it_was_made() -> None:
    with_bias = _network.with_bias_row(samples(), 6)
    assert with_bias.offsets.tolist() == [0, 3, 4, 6, 9]
    assert with_bias.ids.tolist() == [0, 2, 6, 6, 5, 6, 3, 4, 6]
    assert with_bias.values is not None
    assert with_bias.values.tolist() == [3, 4, 1, 1, 2, 1, 1, 1, 1]


def test_features_that_came_later_have_their_rows_behind_it() -> None:
    with_bias = _network.with_bias_row(samples(), 3)
    assert with_bias.offsets.tolist() == [0, 3, 4, 6, 9]
    assert with_bias.ids.tolist() == [0, 2, 3, 3, 3, 6, 3, 4, 5]
    assert with_bias.values is not None
    assert with_bias.values.tolist() == [3, 4, 1, 1, 1, 2, 1, 1, 1]


def test_what_follows_from_the_rows_follows_from_those_it_was_made_for() -> None:
    table = model_pb2.TableSpec(name="labels", role="head", rows=900, base_rows=300)
    assert _network.base_rows(table) == 300
    assert _network.base_rows(model_pb2.TableSpec(rows=900)) == 900


@pytest.mark.parametrize("bf16", [False, True])
def test_zeros_do_not_travel_and_come_back(bf16: bool) -> None:
    x = np.zeros((3, 11), dtype=np.float32)
    x[0, [0, 7, 10]] = [1.5, -0.0, 2]
    x[2, 8] = -3
    message = arrays.matrix(x, bf16=bf16, sparse=True)
    assert message.present == bytes([0x81, 4, 0, 0, 0, 1])
    assert len(message.data) == 4 * (2 if bf16 else 4)
    back = arrays.from_matrix(message)
    np.testing.assert_array_equal(back.view(np.uint32), x.view(np.uint32))


def test_all_numbers_travel_where_that_is_shorter() -> None:
    x = np.ones((3, 11), dtype=np.float32)
    message = arrays.matrix(x, sparse=True)
    assert not message.present
    np.testing.assert_array_equal(arrays.from_matrix(message), x)
