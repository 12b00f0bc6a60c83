"""Models leave dslide as tensors and come back: bit by bit, and as the page of exports says."""

from __future__ import annotations

import functools
import json
import pathlib
import struct
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import training
from process_case import ProcessCase
from processes import Finished, assert_ended

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "start" / "export.md"
OK, FAILURE, USAGE, DATA_LOSS = 0, 1, 2, 5
RETIRED = set(range(300))
ADAM = ("--epochs", 2, "--dim", 32)


class ModelTransferTest(ProcessCase):
    @functools.cached_property
    def data(self) -> training.DataSet:
        return training.generate(self, points=1500, features=500, labels=600, test_points=200)

    def model(self, name: str, *settings: object) -> pathlib.Path:
        directory = self.directory / name
        assert_ended(
            self.run_dslide("train", "-q", *self.data.flags(), "--shards", 2, "--model-dir",
                            directory, *settings), OK)
        return directory

    def model_command(self, *arguments: object) -> Finished:
        return self.run_dslide("model", *arguments, "-q")

    def export(self, name: str, *arguments: object) -> pathlib.Path:
        output = self.directory / name
        assert_ended(self.model_command("export", "--output", output, *arguments), OK)
        return output

    def top_five(self, *arguments: object) -> list[list[dict[str, Any]]]:
        asked = self.run_dslide("predict", "-q", "-o", "json", "-k", 5, "--data", self.data.test,
                                *arguments)
        assert_ended(asked, OK)
        return [json.loads(line)["predictions"] for line in asked.stdout.splitlines()]

    def retire(self, model: pathlib.Path) -> None:
        """Half of the labels, among them many that would be predicted."""
        assert_ended(self.model_command("retire", "--model-dir", model, "--numbers", "0-299",
                                        "--yes"), OK)

    def refuse(self, code: int, word: str, *arguments: object) -> None:
        refused = self.model_command(*arguments)
        assert refused.code == code, refused.stderr
        assert word in refused.stderr

    def spec(self, precision: str, decay: float = 0.9) -> pathlib.Path:
        """Rows in a precision, with averages or not, and a dense layer between; the rest is f32."""
        tables: list[dict[str, Any]] = [
            {"name": "input", "role": "embedding", "dim": 24, "bias_row": True},
            {"name": "middle", "role": "dense", "dim": 24, "rows": 16},
            {"name": "labels", "role": "head", "dim": 16},
        ]
        for table in tables:
            table["precision"] = precision
            table["optimizer"] = {"kind": "adam", "learning_rate": 0.01, "average_decay": decay}
        path = self.directory / f"{precision}-{decay}.json"
        path.write_text(json.dumps({"name": "layers", "tables": tables, "activations": "f32",
                                    "training": {"max_epochs": 2, "transform": "tf_idf"}}))
        return path

    def test_every_bit_comes_back(self) -> None:
        settings = {"adam": ADAM, "components": (),
                    "f32": ("--model", self.spec("f32")),
                    "bf16": ("--model", self.spec("bf16"))}
        for name, flags in settings.items():
            model = self.model(name, *flags)
            first = self.export(f"{name}-1", "--model-dir", model, "--optimizer-state")
            again = self.directory / f"{name}-again"
            # With another number of shards.
            assert_ended(
                self.model_command("import", first, "--model-dir", again, "--shards", 3), OK)
            second = self.export(f"{name}-2.safetensors", "--model-dir", again,
                                 "--optimizer-state")
            assert (first / "model.safetensors").read_bytes() == second.read_bytes(), name
            for mine, other in zip(self.top_five("--model-dir", model),
                                   self.top_five("--model-dir", again), strict=True):
                # Parts of sums are rounded, shard by shard.
                for guess, copy in zip(mine, other, strict=True):
                    assert guess["logit"] == pytest.approx(copy["logit"], abs=0.02), name
        # Training goes on from them.
        assert_ended(
            self.run_dslide("train", "-q", *self.data.flags(), "--shards", 3, "--model-dir",
                            self.directory / "adam-again", "--resume", *ADAM), OK)

    def test_a_fresh_cluster_gets_equal_bits(self) -> None:
        model = self.model("model", *ADAM)
        first = self.export("first", "--model-dir", model, "--optimizer-state",
                            "--max-shard-size", "40kB")
        index = json.loads((first / "model.safetensors.index.json").read_text())
        assert len(set(index["weight_map"].values())) > 2
        cluster = self.start_cluster(shards=2)
        into = ("--cluster", cluster.address, "--name", "copy")
        assert_ended(self.model_command("import", first, *into), OK)
        self.refuse(FAILURE, "already", "import", first, *into)
        second = self.export("second", *into, "--optimizer-state", "--model-dir", model,
                             "--max-shard-size", "40kB")
        for file in sorted(first.glob("*.safetensors")):
            # The name of the model is part of its spec, and the length of headers differs with it.
            assert tensor_bytes(file) == tensor_bytes(second / file.name), file
        assert self.top_five("--model-dir", model) == self.top_five("--model-dir", model,
                                                                    *into)

    def test_numpy_finds_what_predict_finds(self) -> None:
        script = self.directory / "score.py"
        script.write_text(PAGE.read_text().split("```python\n")[1].split("```")[0])
        settings = {"plain": ("--model", self.spec("bf16", 0.0)),
                    "f32": ("--model", self.spec("f32")), "bf16": ("--model", self.spec("bf16"))}
        for name, flags in settings.items():
            model = self.model(name, *flags)
            self.retire(model)
            # Without state: what predictions read is what comes back.
            exported = self.export(f"{name}-exported", "--model-dir", model)
            scored = subprocess.run([sys.executable, script, exported, self.data.test],
                                    capture_output=True, text=True, check=True)
            expected = self.top_five("--model-dir", model)
            found = [[int(label) for label in line.split()]
                     for line in scored.stdout.splitlines()]
            for mine, guesses in zip(found, expected, strict=True):
                logits = {guess["label"]: guess["logit"] for guess in guesses}
                # Labels of equal logits may change places.
                for label, guess in zip(mine, guesses, strict=True):
                    assert logits.get(label, guesses[-1]["logit"]) == pytest.approx(
                        guess["logit"], abs=1e-4), name
                assert not RETIRED & set(mine)

    def test_npz_is_numpys(self) -> None:
        model = self.model("model", "--model", self.spec("bf16_weights"))
        exported = self.export("exported", "--model-dir", model)
        path = self.export("model.npz", "--model-dir", model, "--format", "npz")
        header, tensors = read_tensors(exported / "model.safetensors")
        with np.load(path) as arrays:
            assert sorted(arrays.files) == sorted(tensors)
            for name, expected in tensors.items():
                array = arrays[name]
                assert list(array.shape) == header[name]["shape"], name
                assert array.tobytes() == expected.tobytes(), name
        self.refuse(USAGE, "--overwrite", "export", "--model-dir", model, "--format", "npz",
                    "--output", path)

    def test_a_graph_finds_what_predict_finds(self) -> None:
        runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
        settings = {"plain": ("--model", self.spec("bf16", 0.0)),
                    "f32": ("--model", self.spec("f32"))}
        ids, values = padded_points(self.data.test)
        for name, flags in settings.items():
            model = self.model(name, *flags)
            self.retire(model)
            path = self.export(f"{name}.onnx", "--model-dir", model, "--format", "onnx")
            scores, labels = runtime.InferenceSession(str(path)).run(
                ["scores", "labels"], {"feature_ids": ids, "values": values})
            for mine, logits, guesses in zip(labels, scores,
                                             self.top_five("--model-dir", model), strict=True):
                assert logits == pytest.approx([guess["logit"] for guess in guesses], abs=1e-4)
                known = {guess["label"]: guess["logit"] for guess in guesses}
                for label, logit in zip(mine, logits, strict=True):
                    assert known.get(int(label), guesses[-1]["logit"]) == pytest.approx(
                        logit, abs=1e-4), name
                assert not RETIRED & set(map(int, mine))

    def test_a_graph_of_records_is_refused(self) -> None:
        self.refuse(USAGE, "no ONNX operator", "export", "--model-dir", self.model("memory"),
                    "--format", "onnx", "--output", self.directory / "model.onnx")

    def test_what_is_damaged_or_in_the_way_is_refused(self) -> None:
        model = self.model("model", *ADAM)
        exported = self.export("exported", "--model-dir", model)
        target = self.directory / "target"
        file = exported / "model.safetensors"
        whole = file.read_bytes()
        header = 8 + struct.unpack("<Q", whole[:8])[0]
        damages = {
            "cut": whole[:-1],
            "not those that were exported": whole[:header] + bytes([whole[header] ^ 1])
            + whole[header + 1:],
        }
        for damage, content in damages.items():
            file.write_bytes(content)
            refused = self.model_command("import", exported, "--model-dir", target)
            assert refused.code == DATA_LOSS, (damage, refused.stderr)
            assert str(exported) in refused.stderr
            assert not target.exists()
        file.write_bytes(whole)
        self.refuse(USAGE, "--overwrite", "export", "--model-dir", model, "--output", exported)
        self.export("exported", "--model-dir", model, "--overwrite")
        assert file.read_bytes() == whole
        link = self.directory / "link"
        link.symlink_to(exported)
        self.refuse(USAGE, "link", "export", "--model-dir", model, "--output", link, "--overwrite")
        (exported / "notes.txt").touch()
        self.refuse(USAGE, "notes.txt", "export", "--model-dir", model, "--output", exported,
                    "--overwrite")
        self.refuse(USAGE, "--overwrite", "import", exported, "--model-dir", model)
        self.refuse(USAGE, "--cluster", "import", exported)
        assert_ended(self.model_command("import", exported, "--model-dir", target, "--dry-run"), OK)
        assert not target.exists()
        assert list(self.directory.glob("*.partial")) == []


def padded_points(path: pathlib.Path) -> tuple[Any, Any]:
    """The features of all points, each filled up with feature 0 of the value 0."""
    lines = path.read_text().splitlines()[1:]
    points = [[pair.split(":") for pair in line.partition(" ")[2].split()] for line in lines]
    shape = len(points), max(map(len, points))
    ids, values = np.zeros(shape, np.int64), np.zeros(shape, np.float32)
    for row, point in enumerate(points):
        for column, (feature, value) in enumerate(point):
            ids[row, column], values[row, column] = int(feature), float(value)
    return ids, values


def read_tensors(path: pathlib.Path) -> tuple[dict[str, Any], dict[str, Any]]:
    content = path.read_bytes()
    begin = 8 + struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:begin])
    types = {"F32": "<f4", "BF16": "<u2", "I64": "<i8", "U8": "u1"}
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        first, last = entry["data_offsets"]
        values = np.frombuffer(content[begin + first:begin + last], types[entry["dtype"]])
        if entry["dtype"] == "BF16":
            values = (values.astype(np.uint32) << 16).view(np.float32)
        tensors[name] = values
    return header, tensors


def tensor_bytes(path: pathlib.Path) -> bytes:
    content = path.read_bytes()
    return content[8 + struct.unpack("<Q", content[:8])[0]:]
