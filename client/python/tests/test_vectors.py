"""Against C++, bit for bit, over 10,000 seeded cases each."""

from __future__ import annotations

import json
import pathlib
import subprocess
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from conftest import ROOT
from google.protobuf import json_format

from dslide import arrays, hashing, order, spec
from dslide._network import combine_loss
from dslide.first_rows import first_rows
from dslide.ragged import Ragged, slice_ragged
from dslide.v1 import model_pb2, shard_pb2


@dataclass
class Section:
    settings: dict[str, Any]
    arrays: dict[str, np.ndarray]


@pytest.fixture(scope="module")
def sections(bin_dir: pathlib.Path) -> dict[str, list[Section]]:
    out = subprocess.run(
        [bin_dir / "dslide_client_vectors"], stdout=subprocess.PIPE, check=True, timeout=300
    ).stdout
    found: dict[str, list[Section]] = {}
    at = 0
    while at < len(out):
        end = out.index(b"\n", at)
        header = json.loads(out[at:end])
        at = end + 1
        named = {}
        for name, kind, shape in header["arrays"]:
            count = int(np.prod(shape))
            named[name] = np.frombuffer(out, kind, count, at).reshape(shape)
            at += named[name].nbytes
        found.setdefault(header["section"], []).append(Section(header["settings"], named))
    return found


@pytest.mark.parametrize("family", ["simhash", "dwta"])
def test_fingerprints(sections: dict[str, list[Section]], family: str) -> None:
    queries = 0
    for section in sections["fingerprints"]:
        settings = dict(section.settings)
        if settings.pop("family") != family:
            continue
        hidden = section.arrays["hidden"]
        hasher = hashing.hash_family(
            model_pb2.HashSpec(family=family, **settings),
            hidden.shape[1],
        )
        np.testing.assert_array_equal(
            hasher.hash_queries(hidden), section.arrays["fingerprints"], str(section.settings)
        )
        queries += len(hidden)
    assert queries >= 10_000


def test_first_rows(sections: dict[str, list[Section]]) -> None:
    rows = 0
    for section in sections["first_rows"]:
        settings = section.settings
        table = model_pb2.TableSpec(
            name=settings["table"],
            dim=settings["dim"],
            init=model_pb2.InitSpec(kind=settings["kind"], scale=settings["scale"]),
        )
        values = first_rows(table, settings["seed"], section.arrays["rows"])
        np.testing.assert_array_equal(
            values.view(np.uint32), section.arrays["values"].view(np.uint32), str(settings)
        )
        rows += len(values)
    assert rows >= 10_000


def test_rounding_to_bf16(sections: dict[str, list[Section]]) -> None:
    found = sections["bf16"][0].arrays
    assert len(found["bits"]) >= 10_000
    np.testing.assert_array_equal(arrays.to_bf16(found["bits"].view(np.float32)), found["halves"])


def test_packed_ids(sections: dict[str, list[Section]]) -> None:
    found = sections["packed_ids"][0].arrays
    assert len(found["samples"]) >= 10_000
    offset = row = byte = 0
    for samples, size in zip(found["samples"].tolist(), found["sizes"].tolist()):
        offsets = found["offsets"][offset : offset + samples + 1].astype(np.int64)
        rows = found["rows"][row : row + offsets[-1]]
        expected = found["bytes"][byte : byte + size].tobytes()
        assert arrays.pack_ids(offsets, rows) == expected
        offset += samples + 1
        row += offsets[-1]
        byte += size


def test_orders_and_splits(sections: dict[str, list[Section]]) -> None:
    points = 0
    for section in sections["order"]:
        settings = section.settings
        split = order.TrainingSplit(
            settings["points"], settings["seed"], settings["fraction"], settings["max_validation"]
        )
        if settings["max_validation"] == 0:
            split = order.TrainingSplit(settings["points"], settings["seed"], 0.0, 0)
        epoch = order.EpochOrder(split.num_training, settings["seed"], settings["epoch"])
        visited = split.training_points(epoch.points_at(0, split.num_training))
        np.testing.assert_array_equal(visited, section.arrays["order"], str(settings))
        np.testing.assert_array_equal(split.validation_points(), section.arrays["validation"])
        points += settings["points"]
    assert points >= 10_000


def test_owners_of_rows(sections: dict[str, list[Section]]) -> None:
    rows = 0
    for section in sections["owners"]:
        ids = section.arrays["rows"]
        ragged = Ragged(np.array([0, len(ids)]), ids)
        parts = slice_ragged(section.arrays["owners"], section.settings["shards"], ragged)
        for shard, part in enumerate(parts):
            np.testing.assert_array_equal(part.ids, ids[section.arrays["shard_of_row"] == shard])
        rows += len(ids)
    assert rows >= 10_000


@pytest.mark.parametrize("loss", ["softmax", "sigmoid"])
def test_combined_losses(sections: dict[str, list[Section]], loss: str) -> None:
    """But for the last bit: exponentials and logarithms are those of another library."""
    samples = 0
    for section in sections["loss"]:
        if section.settings["loss"] != loss:
            continue
        found = section.arrays
        parts, labels = [], []
        first = 0
        for highest, sums, offsets in zip(
            found["max_logits"], found["exp_sums"], found["label_offsets"]
        ):
            end = first + int(offsets[-1])
            ids = np.zeros(end - first, np.uint32)
            labels.append(Ragged(offsets.astype(np.int64), ids))
            parts.append(
                shard_pb2.HeadForwardResult(
                    max_logits=highest.tobytes(),
                    exp_sums=sums.tobytes(),
                    label_logits=found["label_logits"][first:end].tobytes(),
                )
            )
            first = end
        combined = combine_loss(loss, parts, labels, found["targets"])
        np.testing.assert_allclose(combined.log_partitions, found["log_partitions"], rtol=2.0**-23)
        np.testing.assert_allclose(combined.loss_sum, found["loss_sum"][0], rtol=2.0**-23)
        samples += len(found["targets"])
    assert samples >= 10_000


def test_defaults_of_specs(sections: dict[str, list[Section]]) -> None:
    """default_spec.json is what C++ takes where a spec says nothing."""
    theirs = json_format.ParseDict(sections["default_spec"][0].settings, spec.ModelSpec())
    assert spec._defaults() == theirs


def test_shipped_specs(sections: dict[str, list[Section]]) -> None:
    """Protobuf's JSON form reads them as they stand, to what C++ makes of them."""
    assert len(sections["spec"]) >= 6
    for section in sections["spec"]:
        path = ROOT / "docs" / "models" / section.settings["file"]
        message = json_format.Parse(path.read_text("utf-8"), spec.ModelSpec())
        theirs = json_format.ParseDict(section.settings["spec"], spec.ModelSpec())
        assert spec.load_spec(message) == theirs, path
        assert spec.load_spec(path) == theirs, path


def test_messages(sections: dict[str, list[Section]]) -> None:
    """Requests and replies as C++ encodes them, read from bytes and from protobuf's JSON form."""
    assert len(sections["message"]) >= 19
    for section in sections["message"]:
        message_type = getattr(shard_pb2, section.settings["type"])
        wire = section.arrays["bytes"].tobytes()
        message = message_type.FromString(wire)
        assert message == json_format.ParseDict(section.settings["json"], message_type())
        assert message.SerializeToString() == wire
