"""Poison leaves no trace in the rows, and the search for it would find one."""

from __future__ import annotations

import functools
import pathlib
import random
from unittest import mock

import grpc_client
import poison
import poison_updates
import pytest
from poison_updates import EXPECTED, KINDS

SEED = 5
pytestmark = pytest.mark.usefixtures("bin_dir")


def test_every_kind_is_refused_and_leaves_no_trace() -> None:
    result = poison.run(SEED, count=1000, per_good=5)
    assert result["poison_mismatches"] == 0, result
    assert (result["poison"], result["kinds"]) == (1000, sorted(KINDS))


def test_an_update_that_is_taken_shows() -> None:
    # A good update in the place of poison: refused by nobody, and in the digest of its table.
    good = {"good": poison_updates.good_gradient}
    with mock.patch.dict(EXPECTED, {"good": (good["good"], ("NOT_FINITE",))}), \
            mock.patch.object(poison, "KINDS", good):
        result = poison.run(SEED, count=3, per_good=3)
    # Three that were taken, the digest of their table, and the count of updates.
    assert (result["poison"], result["poison_mismatches"]) == (3, 5), result
    assert "table learnt" in " ".join(result["mismatches"])
    assert "good number 2: taken" in result["mismatches"]


def test_who_sends_too_much_of_it_is_refused_and_others_are_not(tmp_path: pathlib.Path) -> None:
    source = random.Random(SEED)
    with poison.running_shard(tmp_path / "shard", quarantine_limit=20) as connection:
        bad, answers = poison.Sender(connection, b"b" * 16), []
        with pytest.raises(grpc_client.CallFailed) as refused:
            for _ in range(100):
                answers.append(bad.send(functools.partial(KINDS["nan"], source)))
        # One more had its answer, and then a greeting that had none.
        assert answers == ["NOT_FINITE"] * 20
        assert "QUARANTINED" in str(refused.value)
        good = poison.Sender(connection, b"g" * 16)
        assert good.send(functools.partial(poison_updates.good_add, source)) == ""
